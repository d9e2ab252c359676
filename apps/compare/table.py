# SPDX-License-Identifier: BSD-3-Clause
"""What the measured points say: the best of the others, the table, and the last line.

A point is what one system took for one operation, as compare.py writes it into its JSON:

    {'hosts': 8, 'collective': 'allreduce', 'bytes': 1048576, 'system': 'Gloo', 'algorithm': 'ring',
     'us': 78123.4, 'samples_us': [...]}

bytes: of the larger of a host's two buffers. us: the median, from the first host's begin to the last
host's end. algbw = bytes / us, and what is told of the link is algbw over the link's rate in one
direction. Everything here works on such dictionaries alone, without a rack.
"""
WEIR = 'Weir'
LINK_AIM = 0.95  # from 1 MiB on
SPEED_AIM = 1.7  # 8 hosts, from 1 MiB on
MIB = 1 << 20


def size_text(size):
    for unit, name in ((1 << 30, 'GiB'), (MIB, 'MiB'), (1 << 10, 'KiB')):
        if size >= unit and size % unit == 0:
            return '%d %s' % (size // unit, name)
    return '%d B' % size


def share(point, rate):
    """Of the link. rate: Mbit/s."""
    return point['bytes'] * 8 / point['us'] / rate


def rows(points):
    """Points that belong together: [{'hosts', 'collective', 'bytes', 'weir', 'best', 'ratio'}], in
    the order of the points. weir, best: points, or None. ratio: how many times faster Weir is."""
    found = {}
    for point in points:
        key = (point['hosts'], point['collective'], point['bytes'])
        row = found.setdefault(key, dict(zip(('hosts', 'collective', 'bytes'), key),
                                         weir=None, best=None, ratio=None))
        place = 'weir' if point['system'] == WEIR else 'best'
        if row[place] is None or point['us'] < row[place]['us']:
            row[place] = point
    for row in found.values():
        if row['weir'] and row['best']:
            row['ratio'] = row['best']['us'] / row['weir']['us']
    return list(found.values())


def bandwidth(point):
    """Mbit/s, to three digits."""
    value = point['bytes'] * 8 / point['us']
    return '%.3g' % value if value < 100 else '%.0f' % value


def cells(point, rate):
    return ('-', '-', '-') if point is None else (
        '%.1f' % point['us'], bandwidth(point), '%.3f' % share(point, rate))


def which(point):
    if point is None:
        return '-'
    return point['system'] if point['algorithm'] == 'default' else '%s, %s' % (
        point['system'], point['algorithm'])


def table(points, rate):
    """The table's lines, one block for each collective and number of hosts."""
    form = '%10s  %11s %8s %6s  %11s %8s %6s  %-24s %7s'
    head = '#' + form.replace('%10s', '%9s', 1)
    lines, last = [], None
    for row in rows(points):
        if (row['collective'], row['hosts']) != last:
            last = row['collective'], row['hosts']
            if lines:
                lines.append('')
            lines += ['# %s, %d hosts' % last,
                      head % ('', 'Weir', '', '', 'best other', '', '', '', ''),
                      head % ('size', 'time', 'algbw', 'link', 'time', 'algbw', 'link',
                                        'which', 'Weir is'),
                      head % ('', '(us)', '(Mbit/s)', '', '(us)', '(Mbit/s)', '', '',
                                        '(times)')]
        lines.append(form % ((size_text(row['bytes']),) + cells(row['weir'], rate) +
                             cells(row['best'], rate) +
                             (which(row['best']),
                              '-' if row['ratio'] is None else '%.2f' % row['ratio'])))
    return [line.rstrip() for line in lines]


def headline(points):
    """The row that the last line is about: AllReduce, the most hosts, 1 MiB; else the size next to it."""
    found = [r for r in rows(points) if r['collective'] == 'allreduce' and r['weir']]
    if not found:
        return None
    most = max(r['hosts'] for r in found)
    return min((r for r in found if r['hosts'] == most),
               key=lambda r: max(r['bytes'] / MIB, MIB / r['bytes']))


def last_line(points, rate):
    row = headline(points)
    if row is None:
        return 'compare: nothing of Weir was measured'
    return 'compare: %d hosts %s: %.2f of the link, %s the best other' % (
        row['hosts'], size_text(row['bytes']), share(row['weir'], rate),
        '-.-- x' if row['ratio'] is None else '%.2f x' % row['ratio'])


def missed(points, rate):
    """The aims that were not met, in words; AllReduce only."""
    words = []
    for row in rows(points):
        if row['collective'] != 'allreduce' or row['weir'] is None:
            continue
        name = '%d hosts, %s' % (row['hosts'], size_text(row['bytes']))
        reached = share(row['weir'], rate)
        if row['bytes'] >= MIB and reached < LINK_AIM:
            words.append('%s: %.3f of the link, and %.2f is the aim' % (name, reached, LINK_AIM))
        if row['ratio'] is None:
            continue
        if row['bytes'] >= MIB and row['hosts'] >= 8 and row['ratio'] < SPEED_AIM:
            words.append('%s: %.2f x the best other (%s), and %.1f is the aim' % (
                name, row['ratio'], which(row['best']), SPEED_AIM))
        if row['bytes'] == 4 and row['ratio'] < 1:
            words.append('%s: %.1f us, and %s takes %.1f us' % (
                name, row['weir']['us'], which(row['best']), row['best']['us']))
    return words
