# SPDX-License-Identifier: BSD-3-Clause
"""Two racks of four hosts, whose only way to each other is a thin link from each rack's switch to one above: Weir's tree
beside Open MPI and Gloo. A thin link has the rate of one host's link, so the four hosts of a rack share it (4:1).

The others run with their ranks in two orders: rack by rack, which is the best for a ring, and dealt to the racks in turn, as a
scheduler does that knows nothing of racks. Weir's tree does not depend on it."""
import systems
from experiment import table
from tree import Tree

RACKS = 2
HOSTS = 4  # of a rack
SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24]
AIM, AIM_LEAST = 3.0, 1 << 20  # x the best other, from this size on
BY_RACK, DEALT = 'by rack', 'dealt'
ORDERS = {BY_RACK: list(range(RACKS * HOSTS)),
          DEALT: [HOSTS * (rank % RACKS) + rank // RACKS for rank in range(RACKS * HOSTS)]}


class TwoRacks(Tree):
    """The racks, their switches and the one above. rate: of all links, Mbit/s."""

    def __init__(self, build, rate, settings):
        super().__init__(leaves=RACKS, hosts=HOSTS, limited=True, build=build, mtu=systems.MTU,
                         changes={'workers': settings.get('workers', {})})
        self.rate = rate
        # A tree has no full blocks of alltoall.
        self.add_job(systems.JOB, **{**settings.get('job', {}), 'alltoall': 'short'})
        # What starts processes on hosts keeps their files with those of the first rack.
        self.folder, self.program = self.leaves[0].folder, self.leaves[0].program

    def __enter__(self):
        super().__enter__()
        for link in self.links.values():
            link.limit(self.rate)
        for leaf in self.leaves:
            for host in range(leaf.hosts):
                leaf.limit(host, 'eth0', self.rate)
                leaf.limit('sw', 'p%d' % host, self.rate)
                systems.keep_window(leaf, host)
        return self

    def crossed(self):
        """Bytes that have left rack 0 by its thin link."""
        return self.links['leaf0', 'spine0'].bytes()[0]


def others(rack, programs, order):
    """Open MPI with each of its algorithms, and Gloo, with ranks in this order."""
    up = []
    if 'Open MPI' in programs:
        up += [systems.open_mpi(rack, programs['Open MPI'], algorithm, order=ORDERS[order])
               for algorithm in systems.MPI_ALGORITHMS]
    if 'Gloo' in programs:
        up.append(systems.gloo(rack, programs['Gloo'], ORDERS[order]))
    return up


# -- what points say. A point: as compare.py's, with 'order' (of the others) and 'crossed' (bytes of an operation that left rack 0)

def rows(points):
    """[{'bytes', 'weir', BY_RACK, DEALT}]: points or None; of the others the best."""
    found = {}
    for point in points:
        row = found.setdefault(point['bytes'], {'bytes': point['bytes'], 'weir': None, BY_RACK: None, DEALT: None})
        place = point['order'] or 'weir'
        if row[place] is None or point['us'] < row[place]['us']:
            row[place] = point
    return list(found.values())


def ratio(row, order):
    return row[order]['us'] / row['weir']['us'] if row['weir'] and row[order] else None


def lines(points, rate, size_text):
    """The table."""
    def crosses(point):
        return '%.2f' % (point['crossed'] / point['bytes'])

    def weir_cells(point):
        return ('-',) * 3 if point is None else (
            '%.1f' % point['us'], '%.3f' % (point['bytes'] * 8 / point['us'] / rate), crosses(point))

    def other_cells(row, order):
        point = row[order]
        if point is None:
            return ('-',) * 4
        which = point['system'] if point['algorithm'] == 'default' else '%(system)s, %(algorithm)s' % point
        return ('%.1f' % point['us'], crosses(point), which, '%.2f' % ratio(row, order) if row['weir'] else '-')

    group = [(size_text(row['bytes']), *weir_cells(row['weir']), *other_cells(row, BY_RACK), *other_cells(row, DEALT))
             for row in rows(points)]
    return table((('', "tree", '', '', 'others,', 'ranks by', 'rack', '', 'others,', 'dealt', '', ''),
                  ('size', 'time', 'link', 'crosses', 'time', 'crosses', 'the best', 'tree is',
                   'time', 'crosses', 'the best', 'tree is'),
                  ('', '(us)', '', '(x size)', '(us)', '(x size)', '', '(times)', '(us)', '(x size)', '', '(times)')),
                 [('allreduce, %d racks of %d hosts' % (RACKS, HOSTS), group)], left=(6, 10))


def last_lines(points, size_text, times):
    """Of 1 MiB, or the size next to it; the last line is the order that is the best for the others."""
    found = [row for row in rows(points) if row['weir']]
    if not found:
        return []
    row = min(found, key=lambda r: max(r['bytes'] / AIM_LEAST, AIM_LEAST / r['bytes']))
    name = 'compare: %d racks of %d hosts %s' % (RACKS, HOSTS, size_text(row['bytes']))
    return ['%s, ranks dealt: %s x the best other' % (name, times(ratio(row, DEALT), '-.--')),
            '%s: %s x the best other' % (name, times(ratio(row, BY_RACK), '-.--'))]


def missed(points, size_text):
    return ['%d racks, %s: %.2f x the best other; the aim is %.1f' % (RACKS, size_text(row['bytes']), ratio(row, BY_RACK), AIM)
            for row in rows(points) if row['bytes'] >= AIM_LEAST and (ratio(row, BY_RACK) or AIM) < AIM]
