# SPDX-License-Identifier: BSD-3-Clause
"""Figures as SVG files, drawn by gnuplot: those of the benches, and the module that draws all others, too.

A plot is one to four panels side by side or in two rows. Each system has one colour in all figures. What limits
Weir (the bare kernel, testpmd, rte_hash, the ideal) is dashed, in the colour of the line that it limits, or grey.
"""
import os
import shutil
import subprocess

from figures import pick

WEIR, OPEN_MPI, GLOO = '#0b6fb8', '#d95f02', '#1b9e77'
LIGHT, PURPLE = '#6db3e2', '#8e5bb5'  # of Weir: a second line beside it, and policy `wait`
SHADES = ('#9ccbe8', '#4a9bd1', '#084a7d')  # of Weir, for different numbers of hosts
SERIES = (WEIR, PURPLE, '#5b5b5b', '#c2529b', '#3fa7c9')  # Weir's, where no other system is in the figure
GREY = '#8c8c8c'
GREY_TEXT = '#555555'
PANEL = (470, 366)  # pixels
HEAD = 64  # above the panels, for title and subtitle
ENGINE = {'lcores': 1, 'sources': 8}


class Panel:
    """Axes with lines. A line: (label, [(x, y)], style)."""

    def __init__(self, title, x, y, log='', bars=None, ticks=None, low=0):
        self.title, self.x, self.y = title, x, y
        self.log, self.bars, self.ticks, self.low = log, bars, ticks, low
        self.lines = []

    def line(self, label, points, colour, dashed=False):
        if points:
            style = 'lc rgb "%s" lw %s dt %s' % (colour, 1.6 if dashed else 2.2,
                                                  '(8,5)' if dashed else '1')
            # gnuplot needs at least something to mark where a line has one point only.
            if not dashed or len(points) == 1:
                style += ' pt %d ps 0.55' % (6 if dashed else 7)
                self.lines.append((label, sorted(points), 'linespoints ' + style))
            else:
                self.lines.append((label, sorted(points), 'lines ' + style))

    def measured(self):
        """Is there more than limits?"""
        return bool(self.bars) or any(isinstance(points, list) for _, points, _ in self.lines)

    def beside(self, points, colour):
        """The limit of the line before: dashed, in its colour, and without an entry in the key."""
        self.line('', points, colour, dashed=True)

    def explain(self, label):
        """What the dashed lines are, once in the key."""
        self.lines.append((label, None, 'lines lc rgb "%s" lw 1.6 dt (8,5)' % GREY))

    def limit(self, label, y):
        """A limit that is the same everywhere."""
        self.lines.append((label, y, 'lines lc rgb "%s" lw 1.6 dt (3,4)' % GREY))


class Plot:
    def __init__(self, name, title, measured, panels, columns=2):
        self.name, self.title, self.measured = name, title, measured
        self.panels, self.columns = [p for p in panels if p.measured()], columns


def over(records, x, y=lambda r: r['value']):
    """(parameter, value) of records; without those that have no value."""
    return [(r['params'][x], y(r)) for r in records if y(r) is not None]


def ratio(r):
    return r['ratio']


def limit(r):
    return r['limit']


def gigabits(value):
    return None if value is None else value * 8e-9


def engine_panels(x, label, groups):
    """Ratio and payload over x. groups: (label, records)."""
    ratios = Panel('Share of the bare kernel', label, 'Weir / bare kernel', log='x')
    payload = Panel('Payload of one lcore', label, 'Gbit/s', log='x')
    ratios.limit('bare kernel', 1)
    for (name, records), colour in zip(groups, SERIES):
        ratios.line(name, over(records, x, ratio), colour)
        payload.line(name, over(records, x), colour)
        payload.beside(over(records, x, limit), colour)
    payload.explain('bare kernel')
    return [ratios, payload]


def varied(records, x):
    """Records of the engine's run over x."""
    found = [r for r in pick(records, 'engine', 'payload', **ENGINE) if r.get('run', x) == x]
    fixed = {'threads': 20, 'window': 64}
    fixed.pop(x, None)
    return [r for r in found if all(r['params'][k] == v for k, v in fixed.items())]


def engine(records):
    found = varied(records, 'elements')
    yield Plot('engine-elements', 'Engine: contributions of different sizes',
               'contributions of 8 sources that lie in mbufs already, window 64, 20 threads',
               engine_panels('elements', 'elements of a contribution (4 bytes each)',
                             [('%s, %s' % (t, how),
                               [r for r in found if r['params']['type'] == t
                                and r['params']['results'] == how])
                              for t in ('int32', 'fp32') for how in ('unicast', 'multicast')]))
    for x, label, beside in (
            ('threads', 'thread contexts', 'window 64'),
            ('window', 'window, blocks', '20 threads')):
        found = [r for r in varied(records, x) if r['params']['type'] == 'fp32']
        groups = [('%d elements' % n, [r for r in found if r['params']['elements'] == n])
                  for n in (64, 256, 1024)]
        if len({r['params'][x] for r in found}) > 1:
            yield Plot('engine-' + x, 'Engine: ' + label.split(',')[0],
                       'contributions of 8 sources that lie in mbufs already, fp32, ' + beside,
                       engine_panels(x, label, groups))


def hash_table(records):
    panels = []
    for op, title in (('hit', 'Lookups that find'), ('miss', 'Lookups that miss'),
                      ('insert', 'Inserts'), ('delete', 'Deletes')):
        panel = Panel(title, 'records', 'ns', log='x')
        found = pick(records, 'hash', op, load=50)
        panel.line('Weir', over(found, 'records', lambda r: 1e3 / r['value']), WEIR)
        panel.line('rte_hash', over(found, 'records', lambda r: r['limit'] and 1e3 / r['limit']),
                   GREY, dashed=True)
        panels.append(panel)
    yield Plot('hash', 'Hash engine beside rte_hash',
               'time of an operation on random 64-bit keys, tables half full, 32 in flight',
               panels)


def latency(records):
    quantiles = ('p50', 'p99', 'p99.9', 'max')
    panels = []
    for what, title in (('reduce', 'Last contribution in to first result out'),
                        ('forward', 'An ordinary frame of the same size')):
        panel = Panel(title, 'share of all', 'microseconds', log='y',
                      ticks=[(i, q) for i, q in enumerate(quantiles)], low=None)
        loads = sorted({r['params']['load_percent']
                        for r in pick(records, 'latency', 'p50', what=what, elements=1024)})
        for load, colour in zip(loads, SERIES):
            name = 'load %d %%' % load if load else 'unloaded'
            weir, beside = [], []
            for i, q in enumerate(quantiles):
                for r in pick(records, 'latency', q, what=what, elements=1024, load_percent=load):
                    weir.append((i, r['value']))
                    beside += [(i, r['limit'])] if r['limit'] else []
            panel.line(name, weir, colour)
            panel.beside(beside, colour)
        panel.explain('testpmd')
        panels.append(panel)
    yield Plot('latency', 'Latency beside testpmd',
               'counted from when a frame was due; contributions of 1024 elements over memif',
               panels)


def hop_lines(found):
    """Records by how many of the packets hop; one lcore belongs to all."""
    kinds = (('no packet hops', lambda n, far: far == 0),
             ('half of them hop', lambda n, far: far == 0.5),
             ('(n - 1) / n of them hop', lambda n, far: n > 2 and abs(far - 1 + 1 / n) < 1e-3))
    for name, belongs in kinds:
        mine = [r for r in found if r['params']['lcores'] == 1 or
                belongs(r['params']['lcores'], r['params']['far'])]
        if any(r['params']['lcores'] > 1 for r in mine):
            yield name, mine


def scaling(records):
    found = pick(records, 'scaling', 'payload')
    large = [r for r in found if r['params']['elements'] == 1024]
    lcores = sorted({r['params']['lcores'] for r in found})
    payload = Panel('Payload of all lcores, 1024 elements', 'worker lcores', 'Gbit/s')
    share = Panel('Share of the ideal', 'worker lcores', 'payload / (lcores x one lcore)')
    share.limit('ideal', 1)
    for panel in (payload, share):
        panel.ticks = [(n, str(n)) for n in lcores]
    one = [r['value'] for r in large if r['params']['lcores'] == 1]
    if one:
        payload.line('ideal', [(n, n * one[0]) for n in lcores], GREY, dashed=True)
    for (name, mine), colour in zip(hop_lines(large), SERIES):
        payload.line(name, over(mine, 'lcores'), colour)
    for elements, colour in zip((64, 256, 1024), SERIES):
        lines = dict(hop_lines([r for r in found if r['params']['elements'] == elements]))
        share.line('%d elements' % elements, over(lines.get('no packet hops', []), 'lcores',
                                                  ratio), colour)
        share.beside(over(lines.get('half of them hop', []), 'lcores', ratio), colour)
    share.explain('half hop')
    yield Plot('scaling', 'Scaling over lcores',
               'contributions of 8 sources that lie in mbufs already; ideal: n times one lcore',
               [payload, share])


def ports(records):
    found = pick(records, 'ports', 'wire')
    over_what = found[0]['params']['over'] if found else 'memif'
    found = [r for r in found if r['params']['over'] == over_what]
    groups = [('%d\\n%s' % (r['params']['elements'], r['params']['results']),
               gigabits(r['value']), gigabits(r['limit'])) for r in found]
    frames = [(str(r['params']['frame_bytes']),
               r['value'] * (r['params']['frame_bytes'] + 20) * 8e-9,
               (r['limit'] or 0) * (r['params']['frame_bytes'] + 20) * 8e-9)
              for r in pick(records, 'ports', 'frames', over=over_what)]
    yield Plot('ports', 'Whole switch beside testpmd',
               'received from the wire by the device over %s, closed loop' % over_what,
               [Panel('Contributions', 'elements of a contribution, results', 'Gbit/s on the wire',
                      bars=groups),
                Panel('Ordinary frames', 'bytes of a frame', 'Gbit/s on the wire', bars=frames)])


def rfc2544(records):
    panels = []
    for what, title in (('forward', 'Ordinary frames'), ('reduce', 'Contributions, 8 sources')):
        panel = Panel(title, 'bytes of a frame', 'million frames per second', log='x')
        found = pick(records, 'rfc2544', what)
        panel.ticks = [(r['params']['frame_bytes'], str(r['params']['frame_bytes']))
                       for r in found]
        panel.line('Weir', over(found, 'frame_bytes', lambda r: r['value'] / 1e6), WEIR)
        panel.line('testpmd', over(found, 'frame_bytes', lambda r: r['limit'] and r['limit'] / 1e6),
                   GREY, dashed=True)
        panels.append(panel)
    yield Plot('rfc2544', 'Highest rate without loss (RFC 2544, short trials)',
               'found by bisection over memif, beside testpmd by the same procedure', panels)


def text(words):
    """A string of gnuplot's."""
    return '"%s"' % words.replace('"', "'")


def top(panel):
    """The largest value of a linear axis, with room for the key above."""
    most = 0
    for _, points, _ in panel.lines:
        most = max([most] + [y for _, y in points] if isinstance(points, list)
                   else [most, points or 0])
    for _, weir, beside in panel.bars or ():
        most = max(most, weir or 0, beside or 0)
    return most * 1.05 or 1


def x_ticks(panel):
    if panel.ticks:
        return panel.ticks
    values = sorted({x for _, points, _ in panel.lines if isinstance(points, list)
                     for x, _ in points})
    names = [(v, '%g%s' % ((v / 1e6, 'M') if v >= 1e6 else (v / 1e3, 'k') if v >= 1e3
                           and v % 1000 == 0 else (v, ''))) for v in values]
    return names


def panel_script(panel, script):
    """The commands of one panel."""
    script.append('unset logscale')
    if panel.bars is not None:
        script += ['set style data histograms', 'set style histogram clustered gap 1',
                   'set style fill solid 0.9 noborder', 'set boxwidth 0.9', 'set xtics autofreq',
                   'set xrange [-0.6:%g]' % (len(panel.bars) - 0.4),
                   'set yrange [0:%g]' % top(panel), '$data << END']
        script += ['"%s" %.6g %.6g' % (name, weir or 0, beside or 0)
                   for name, weir, beside in panel.bars]
        script += ['END', 'set xtics (%s)' % ', '.join(
            '"%s" %d' % (b[0], i) for i, b in enumerate(panel.bars))]
        script.append('plot $data using 2 title "Weir" lc rgb "%s", '
                      '$data using 3 title "testpmd (limit)" lc rgb "%s"' % (WEIR, '#c4c4c4'))
        return
    ticks = x_ticks(panel)
    xs = [t[0] for t in ticks]
    if 'x' in panel.log:
        script += ['set logscale x 2', 'set xrange [%g:%g]' % (xs[0] / 1.15, xs[-1] * 1.15)]
    else:
        room = (xs[-1] - xs[0] or 1) * 0.06
        script.append('set xrange [%g:%g]' % (xs[0] - room, xs[-1] + room))
    script.append('set xtics (%s)' % ', '.join('"%s" %g' % (name, x) for x, name in ticks))
    if 'y' in panel.log:
        script += ['set logscale y 10', 'set yrange [*:*]']
    else:
        script.append('set yrange [0:%g]' % top(panel))
    parts = []
    for number, (label, points, style) in enumerate(panel.lines):
        if not isinstance(points, list):
            points = 'NaN' if points is None else '%g' % points
            parts.append('%s with %s title %s' % (points, style, text(label)))
            continue
        script.append('$line%d << END' % number)
        script += ['%.9g %.9g' % point for point in points]
        script.append('END')
        parts.append('$line%d with %s %s' % (
            number, style, 'title ' + text(label) if label else 'notitle'))
    script.append('plot ' + ', '.join(parts))


def label(number, words, x, y, size, colour='#000000', where='left'):
    return ['set label %d %s at screen %g, screen %g %s font ",%d" tc rgb "%s" front' % (
        number, text(words), x, y, where, size, colour)]


def plot_script(plot, subtitle, path):
    columns = min(plot.columns, len(plot.panels))
    rows = -(-len(plot.panels) // columns)
    width, height = max(columns, 1.3) * PANEL[0], rows * PANEL[1] + HEAD
    share = 1 - HEAD / height
    script = ['set encoding utf8', 'set terminal svg size %d,%d dynamic noenhanced background '
              '"#ffffff" font "Helvetica,Arial,sans-serif,12"' % (width, height),
              'set output %s' % text(path), 'set border 3 lc rgb "#555555"',
              'set tics nomirror out scale 0.6', 'set grid ytics lc rgb "#e4e4e4" lt 1 lw 0.8',
              'set key center top horizontal Left reverse samplen 2 spacing 1.05 width -2 maxcols 3 '
              'font ",11"',
              'set multiplot']
    for number, (words, below, size, colour) in enumerate((
            (plot.title, 22, 17, '#000000'), (plot.measured, 42, 11, GREY_TEXT),
            (subtitle, 57, 11, GREY_TEXT)), 1):
        script += label(number, words, 16 / width, 1 - below / height, size, colour)
    for number, panel in enumerate(plot.panels):
        row, column = divmod(number, columns)
        left, low = column / columns, share * (rows - 1 - row) / rows
        head, first, last = low + share / rows, left + 62 / width, left + 1 / columns - 22 / width
        middle = (first + last) / 2
        # The same margins everywhere, whatever the axes' numbers and the key take.
        script += ['set size %g,%g' % (1 / columns, share / rows), 'set origin %g,%g' % (left, low),
                   'set lmargin at screen %g' % first, 'set rmargin at screen %g' % last,
                   'set tmargin at screen %g' % (head - 50 / height),
                   'set bmargin at screen %g' % (low + 116 / height),
                   'set key at screen %g, screen %g' % (middle, low + 52 / height)]
        script += label(4, panel.title, first, head - 22 / height, 13)
        script += label(5, panel.y, first, head - 38 / height, 11, GREY_TEXT)
        script += label(6, panel.x, middle, low + 60 / height, 11, GREY_TEXT, 'center')
        panel_script(panel, script)
        script += ['unset label', 'unset xrange', 'set xtics autofreq']
    script.append('unset multiplot')
    return '\n'.join(script) + '\n'


def svg(plot, subtitle, path):
    """Draw a plot into this file. Returns what went wrong, or None."""
    if shutil.which('gnuplot') is None:
        return 'gnuplot is not installed'
    done = subprocess.run(['gnuplot'], input=plot_script(plot, subtitle, path), capture_output=True,
                          text=True, timeout=30, check=False)
    if done.returncode != 0 or done.stderr.strip():
        return 'gnuplot, %s: %s' % (plot.name, done.stderr.strip()[-300:])
    return None


def pages(records, bench):
    """Which pages a bench ran on, if its records say so."""
    huge = {r['params']['huge_pages'] for r in records
            if r['bench'] == bench and 'huge_pages' in r['params']}
    return {(): '', (True,): ', huge pages', (False,): ', pages of 4 KiB'}.get(
        tuple(huge), ', huge pages and pages of 4 KiB')


def disturbed(records, bench):
    """A warning when other processes disturbed what was measured."""
    said = [r['observed']['disturbed'] for r in records
            if r['bench'] == bench and 'disturbed' in r.get('observed', {})]
    return '; DISTURBED by other processes in %d of %d records' % (sum(said), len(said)) \
        if any(said) else ''


def draw(records, machine, folder):
    """Draw what the records have. machine: 'cpu', 'cpus', 'kernel', 'huge_pages'. Returns the files made, and what
    went wrong."""
    made, wrong = [], []
    for plot in (plot for kind in (engine, scaling, hash_table, ports, latency, rfc2544)
                 for plot in (kind(records) if records else ()) if plot.panels):
        bench = plot.name.split('-')[0]
        which = pages(records, bench) or (
            ', huge pages' if machine['huge_pages'] else ', pages of 4 KiB')
        subtitle = '%s, %d CPUs, Linux %s%s%s' % (machine['cpu'], machine['cpus'], machine['kernel'],
                                                  which, disturbed(records, bench))
        path = os.path.join(folder, plot.name + '.svg')
        error = svg(plot, subtitle, path)
        if error:
            wrong.append(error)
        else:
            made.append(path)
    return made, wrong
