# SPDX-License-Identifier: BSD-3-Clause
"""The figures that Weir is measured by, found among the benches' records, beside their aims."""
from types import SimpleNamespace

from report import shown

# The point at which the engine's aims hold.
ENGINE = {'lcores': 1, 'sources': 8, 'window': 64, 'threads': 20}
RATIO_AIMS = ((64, 0.55), (256, 0.80), (1024, 0.90))
KWAY_AIM = 0.85  # at 1024 elements
INSTRUCTION_AIMS = {'unicast': ((64, 400), (256, 600), (1024, 800)), 'multicast': ((64, 260), (256, 340), (1024, 480))}
PORTS_AIMS = {'unicast': 0.75, 'multicast': 0.90}
JOBS_AIM = 0.90  # many jobs beside one: the noise of the bench
MET, MISSED, DISTURBED, OPEN = 'met', 'not met', 'disturbed', 'not measured'
BOUND = 'met, generator-bound'
UNJUDGED = 'not judged'  # this machine can't do it at all
PAYLOAD_AIM, PAYLOAD_BARE = 100, 110  # Gbit/s per lcore; of the bare kernel, to judge by it


def pick(records, bench, /, **wanted):
    """The records of a bench that have these."""
    return [r for r in records if r['bench'] == bench and all(r.get(k) == v for k, v in wanted.items())]


def engine(records, elements, **wanted):
    """The engine's, at its point."""
    return pick(records, 'engine', elements=elements, **ENGINE, **wanted)


def figure(name, records, value, limit, unit, aim, good, able=lambda value, limit: True):
    """A row: a value, the limit that the same run measured, their ratio, the aim. Of the records in which it was
    measured the first one counts. good, able: of value and limit: is the aim reached, can this machine at all? A figure that
    other processes disturbed tells nothing. One that is good because the generator was the limit says so."""
    found = next((r for r in records if r.get(value) is not None), None)
    if found is None:
        return SimpleNamespace(name=name, value='-', limit='-', ratio=None, aim=aim, met=OPEN)
    v, most = found[value], found.get(limit)
    met = (UNJUDGED if not able(v, most) else DISTURBED if found.get('disturbed') else MISSED if not good(v, most) else
           BOUND if found.get('generator_bound') else MET)
    return SimpleNamespace(name=name, value=shown(v, unit), limit=shown(most, unit), ratio=v / most if most else None, aim=aim,
                           met=met)


def at_least(name, records, value, limit, unit, aim):
    """The ratio to the limit must be at least so much."""
    return figure(name, records, value, limit, unit, 'ratio >= %.2f' % aim,
                  lambda v, most: bool(most) and v >= aim * most)


def of_jobs(records):
    """The engine with many jobs beside one."""
    for elements, _ in RATIO_AIMS:
        one, *many = [engine(records, elements, jobs=jobs, type='int32', results='unicast')[-1:]
                      for jobs in (1, 8, 64)]  # measured last, with the jobs
        for jobs, found in zip((8, 64), many):
            both = [dict(r, alone=o['rate'], disturbed=o.get('disturbed') or r.get('disturbed')) for r, o in zip(found, one)]
            yield at_least('%d jobs beside 1, %d elements' % (jobs, elements), both, 'rate', 'alone', 'Mpps', JOBS_AIM)


def of_engine(records):
    tagged = [r for r in records if r.get('authenticated')]
    records = [r for r in records if not r.get('authenticated')]
    for results, aims in INSTRUCTION_AIMS.items():
        for elements, most in aims:
            yield figure('instructions, int32, %d elements, %s' % (elements, results),
                         engine(records, elements, results=results, order='block', type='int32'),
                         'instructions', None, '', '<= %d' % most, lambda v, _, most=most: v <= most)
    records = [r for r in records if r.get('order') == 'runs']  # the default
    yield from of_jobs(records)
    records = [r for r in records if r.get('jobs') == 1]
    for results in ('unicast', 'multicast'):
        yield at_least('engine beside bare k-way, int32, 1024 elements, %s' % results,
                       engine(records, 1024, type='int32', results=results), 'payload', 'kway', 'Gbit/s', KWAY_AIM)
    for results in ('unicast', 'multicast'):
        for kind in ('int32', 'fp32'):
            for elements, aim in RATIO_AIMS:
                yield at_least('engine, %s, %d elements, %s' % (kind, elements, results),
                               engine(records, elements, type=kind, results=results), 'payload', 'bare', 'Gbit/s', aim)
    yield figure('payload per lcore, 1024 elements, huge pages',
                 sorted(engine(records, 1024, huge_pages=True), key=lambda r: r['payload']),
                 'payload', 'bare', 'Gbit/s', '>= %d Gbit/s' % PAYLOAD_AIM, lambda v, _: v >= PAYLOAD_AIM,
                 lambda _, most: most is None or most >= PAYLOAD_BARE)
    yield at_least('authenticated beside plain, 1024 elements', engine(tagged, 1024), 'payload', 'plain', 'Gbit/s', 0.8)
    for far, hops in ((0, 'no hops'), (0.5, 'half hop')):
        yield at_least('2 lcores beside twice 1, 1024 elements, %s' % hops,
                       pick(records, 'engine', lcores=2, far=far, elements=1024), 'payload', 'many', 'Gbit/s', 0.9)


def of_latency(records):
    """The median of an unloaded switch beside testpmd's."""
    for what in ('reduce', 'forward'):
        yield figure('latency p50, unloaded, %s, 1024 elements' % what,
                     pick(records, 'latency', what=what, load_percent=0, elements=1024), 'p50', 'p50_testpmd', 'us',
                     'testpmd + 2 us', lambda v, most: most is not None and v <= most + 2)


def of_hash(records):
    for load, name in ((50, ''), (90, ', 90 % live')):
        yield at_least('hash hits, a million records' + name,
                       pick(records, 'hash', op='hit', records=1000000, load=load), 'mops', 'mops_rte', 'Mops/s', 1.5)


def of_ports(records):
    for results, aim in PORTS_AIMS.items():
        for elements in (256, 1024):
            yield at_least('ports, %d elements, %s' % (elements, results),
                           pick(records, 'ports', elements=elements, results=results),
                           'wire', 'wire_testpmd', 'Gbit/s', aim)


def figures(records, benches):
    """The rows of these benches, those that were not measured too."""
    groups = {'engine': of_engine, 'hash': of_hash, 'ports': of_ports, 'latency': of_latency}
    return [found for bench, of in groups.items() if bench in benches for found in of(records)]


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
        (f.name, f.value, f.limit, '-' if f.ratio is None else '%.3f' % f.ratio, f.aim, f.met)
        for f in rows])], left=(0, 4, 5))
    return ['#'] + lines + ['#', '# aims: ' + ', '.join(
        '%d %s' % (found.count(met), met) for met in (MET, BOUND, MISSED, DISTURBED, UNJUDGED, OPEN))] + [
            '# ' + note for met, note in NOTES.items() if met in found]
