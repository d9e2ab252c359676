# SPDX-License-Identifier: BSD-3-Clause
"""Figures as SVG files, drawn by gnuplot.

A plot is one to four panels side by side or in two rows. Each system has one colour in all figures. What limits
Weir (the link, the ideal) is dashed, in the colour of the line that it limits, or grey.
"""
import shutil
import subprocess

WEIR, OPEN_MPI, GLOO = '#0b6fb8', '#d95f02', '#1b9e77'
LIGHT, PURPLE = '#6db3e2', '#8e5bb5'  # of Weir: a second line beside it, and policy `wait`
SHADES = ('#9ccbe8', '#4a9bd1', '#084a7d')  # of Weir, for different numbers of hosts
GREY = '#8c8c8c'
GREY_TEXT = '#555555'
PANEL = (470, 366)  # pixels
HEAD = 64  # above the panels, for title and subtitle


class Panel:
    """Axes with lines. A line: (label, [(x, y)], style)."""

    def __init__(self, title, x, y, log='', ticks=None):
        self.title, self.x, self.y, self.log, self.ticks = title, x, y, log, ticks
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
        return any(isinstance(points, list) for _, points, _ in self.lines)

    def limit(self, label, y):
        """A limit that is the same everywhere."""
        self.lines.append((label, y, 'lines lc rgb "%s" lw 1.6 dt (3,4)' % GREY))


class Plot:
    def __init__(self, name, title, measured, panels, columns=2):
        self.name, self.title, self.measured = name, title, measured
        self.panels, self.columns = [p for p in panels if p.measured()], columns


def text(words):
    """A string of gnuplot's."""
    return '"%s"' % words.replace('"', "'")


def top(panel):
    """The largest value of a linear axis, with room for the key above."""
    most = 0
    for _, points, _ in panel.lines:
        most = max([most] + [y for _, y in points] if isinstance(points, list)
                   else [most, points or 0])
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
