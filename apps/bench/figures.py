# SPDX-License-Identifier: BSD-3-Clause
"""The figures that Weir is measured by, found among the benches' records, beside their aims."""

# The point at which the engine's aims hold.
ENGINE = {'lcores': 1, 'sources': 8, 'window': 64}
THREADS = 20
RATIO_AIMS = ((64, 0.55), (256, 0.80), (1024, 0.90))
MET, MISSED, DISTURBED, OPEN = 'met', 'not met', 'disturbed', 'not measured'
BOUND = 'met, generator-bound'
UNJUDGED = 'not judged'  # this machine can't do it at all
PAYLOAD_AIM, PAYLOAD_BARE = 100, 110  # Gbit/s per lcore; of the bare kernel, to judge by it


class Figure:
    """A row: a value, the limit that the same run measured, their ratio, the aim."""

    def __init__(self, name, value=None, limit=None, ratio=None, aim='', met=OPEN):
        self.name, self.value, self.limit, self.ratio = name, value, limit, ratio
        self.aim, self.met = aim, met


def pick(found, bench, metric, /, **params):
    """The records of a metric whose parameters are these."""
    return [r for r in found if r['bench'] == bench and r['metric'] == metric
            and r['value'] is not None
            and all(r['params'].get(k) == v for k, v in params.items())]


def amount(value, unit):
    """A number as a table has it: three digits that count."""
    if value is None:
        return '-'
    if unit == 'byte/s':
        value, unit = value * 8e-9, 'Gbit/s'
    elif unit == '1/s':
        value, unit = value / 1e6, 'M/s'
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    return '%.*f %s' % (digits, value, unit)


def judge(record, good):
    """A figure that other processes disturbed tells nothing, whatever it is. One that is good because
    the generator was the limit, of the switch or of what stands beside it, says so."""
    seen = record.get('observed', {})
    if seen.get('disturbed'):
        return DISTURBED
    return MISSED if not good else BOUND if seen.get('generator_bound') else MET


def at_least(name, found, aim):
    """The ratio to the limit must be at least so much."""
    if not found:
        return Figure(name, aim='ratio >= %.2f' % aim)
    r = found[0]
    good = r['ratio'] is not None and r['ratio'] >= aim
    return Figure(name, amount(r['value'], r['unit']), amount(r['limit'], r['unit']), r['ratio'],
                  'ratio >= %.2f' % aim, judge(r, good))


def of_engine(records):
    for results in ('unicast', 'multicast'):
        for kind in ('int32', 'fp32'):
            for elements, aim in RATIO_AIMS:
                yield at_least('engine, %s, %d elements, %s' % (kind, elements, results),
                               pick(records, 'engine', 'payload', type=kind, elements=elements,
                                    threads=THREADS, results=results, **ENGINE), aim)
    for kind in ('int32', 'fp32'):
        for elements in (64, 256, 1024):
            yield of_threads(records, kind, elements)
    name, aim = 'payload per lcore, 1024 elements, huge pages', '>= %d Gbit/s' % PAYLOAD_AIM
    found = pick(records, 'engine', 'payload', elements=1024, threads=THREADS, huge_pages=True,
                 **ENGINE)
    if not found:
        yield Figure(name, aim=aim)
        return
    worst = min(found, key=lambda r: r['value'])
    yield Figure(name, amount(worst['value'], 'Gbit/s'), amount(worst['limit'], 'Gbit/s'),
                 worst['ratio'], aim,
                 UNJUDGED if worst['limit'] is not None and worst['limit'] < PAYLOAD_BARE
                 else judge(worst, worst['value'] >= PAYLOAD_AIM))


def of_threads(records, kind, elements):
    """16 threads beside one: what latency hiding brings."""
    name, aim = '16 threads beside 1, %s, %d elements' % (kind, elements), 'ratio >= 1.15'
    rate = {n: pick(records, 'engine', 'rate', type=kind, elements=elements, threads=n, **ENGINE)
            for n in (1, 16)}
    if not all(rate.values()):
        return Figure(name, aim=aim)
    one, many = rate[1][0]['value'], rate[16][0]['value']
    return Figure(name, amount(many, 'Mpps'), amount(one, 'Mpps'), many / one, aim,
                  max((judge(r[0], many >= 1.15 * one) for r in rate.values()),
                      key=lambda met: met == DISTURBED))


def of_scaling(records):
    """Twice the lcores, twice the payload?"""
    aim = 'ratio >= 0.90'
    for far, hops in ((0, 'no hops'), (0.5, 'half hop')):
        name = 'scaling, 2 lcores beside twice 1, 1024 el., %s' % hops
        found = pick(records, 'scaling', 'payload', lcores=2, far=far, elements=1024)
        yield at_least(name, found, 0.9) if found else Figure(name, aim=aim)


def of_latency(records):
    """The median of an unloaded switch beside testpmd's."""
    aim = 'testpmd + 2 us'
    for what in ('reduce', 'forward'):
        name = 'latency p50, unloaded, %s, 1024 elements' % what
        found = pick(records, 'latency', 'p50', what=what, load_percent=0, elements=1024)
        if not found:
            yield Figure(name, aim=aim)
            continue
        r = found[0]
        good = r['limit'] is not None and r['value'] <= r['limit'] + 2
        yield Figure(name, amount(r['value'], 'us'), amount(r['limit'], 'us'), r['ratio'], aim,
                     judge(r, good))


def of_hash(records):
    for load, name in ((50, ''), (90, ', 90 % live')):
        yield at_least('hash hits, a million records' + name,
                       pick(records, 'hash', 'hit', records=1000000, load=load), 1.5)


def of_ports(records):
    for results in ('unicast', 'multicast'):
        yield at_least('ports, 1024 elements, %s' % results,
                       pick(records, 'ports', 'wire', elements=1024, results=results,
                            over='memif'), 0.85)


def figures(records, benches):
    """The rows of these benches, those that were not measured too."""
    groups = {'engine': of_engine, 'scaling': of_scaling, 'hash': of_hash, 'ports': of_ports,
              'latency': of_latency}
    return [row for bench, of in groups.items() if bench in benches for row in of(records)]


NOTES = {
    DISTURBED: 'disturbed: other processes took CPU time during the measurement; measure again on an idle machine',
    BOUND: 'generator-bound: the generator had no time left beside one of the two; with a faster one the ratio may '
           'be less',
    UNJUDGED: 'not judged: the bare kernel does less than %d Gbit/s here' % PAYLOAD_BARE,
}


def figure_lines(rows, table):
    """The figures as a table, and what its words mean. table: experiment.table."""
    found = [f.met for f in rows]
    lines = table([('figure', 'value', 'limit', 'ratio', 'aim', '')], [(None, [
        (f.name, f.value or '-', f.limit or '-', '-' if f.ratio is None else '%.3f' % f.ratio, f.aim, f.met)
        for f in rows])], left=(0, 4, 5))
    return ['#'] + lines + ['#', '# aims: ' + ', '.join(
        '%d %s' % (found.count(met), met) for met in (MET, BOUND, MISSED, DISTURBED, UNJUDGED, OPEN))] + [
            '# ' + note for met, note in NOTES.items() if met in found]
