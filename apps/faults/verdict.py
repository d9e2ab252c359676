# SPDX-License-Identifier: BSD-3-Clause
"""The outcome of a scenario: counts, expectations, and the table of both."""
import collections
import json
import re


class Outcome:
    """The counts of one play."""

    def __init__(self, play):
        reports = [(h, h.report) for h in play.hosts]
        self.play = play
        self.counts = play.stage.counts()
        self.hung = list(play.hung)
        self.wrong, self.problems = 0, []
        done = [r for _, r in reports if r]
        for host, _ in reports:
            for step, count in re.findall(r'^wrong: step (\d+): (\d+)$', host.output, re.M):
                self.wrong += int(count)
                self.problems.append('%s: %s elements of operation %s are wrong' % (
                    host.name, count, step))
        self.compare_results()
        self.compare_fed_back(reports)
        self.operations = sum(r['done'] if r else h.step for h, r in reports if not h.endless)
        self.seconds = (max(r['ended_ns'] for r in done) - min(r['began_ns'] for r in done)) / 1e9 \
            if done else play.seconds if any(h.is_program for h in play.hosts) else None
        self.longest_ms = max((r['longest_ns'] / 1e6 for r in done), default=None)
        mine = {
            'operations': self.operations,
            'repaired': sum(r['retransmissions'] for r in done),
            'duplicated': self.counts['drops.duplicate'] + sum(r['duplicates'] for r in done),
            'rejoins': sum(r['rejoins'] for r in done),
            'fed_back': sum(r['fed_back'] for r in done),
            'forged': sum(r['forged'] for r in done) + self.counts['drops.forged'],
            'crc': sum(r['crc'] for r in done) + self.counts['drops.crc'],
        }
        self.counts.update(mine)
        sent = sum(r['packets_sent'] for r in done)
        # Contributions that a switch had already.
        self.needless = 100 * self.counts['duplicates'] / sent if sent else None

    def compare_results(self):
        """Replicas never diverge silently: one operation has one result on all hosts."""
        found = collections.defaultdict(lambda: collections.defaultdict(list))
        for host in self.play.hosts:
            try:
                with open(host.results) as file:
                    lines = [line.split() for line in file if line.endswith('\n')]
            except FileNotFoundError:
                continue
            for meeting, step, value in lines:
                found[host.job, meeting, step][value].append(host)
        for (job, meeting, step), values in found.items():
            if len(values) > 1:
                self.wrong += 1
                self.problems.append('job %d, meeting %s, operation %s: hosts have %d different results' % (
                    job, meeting, step, len(values)))

    def compare_fed_back(self, reports):
        """With error feedback, each host gets all that was contributed. Not checked if a host repeated an operation that
        had failed on others: it has contributed twice."""
        for number, job in enumerate(self.play.scenario['jobs'], 1):
            mine = [(h, r) for h, r in reports if h.job == number]
            if not job['error_feedback'] or any(r is None or r['code'] < 0 or r['done'] > job['steps']
                                       for _, r in mine):
                continue
            given = sum(r['given'] for _, r in mine) % (1 << 32)
            for host, report in mine:
                if report['got'] != given:
                    self.wrong += 1
                    self.problems.append('%s: got %d of what was contributed, %d' % (
                        host.name, report['got'], given))

    def end_of(self, host):
        """done, failed or killed."""
        if host.killed:
            return 'killed'
        if host.is_program:
            return 'failed' if host.process.status else 'done'
        report = host.report
        steps = self.play.scenario['jobs'][host.job - 1]['steps']
        fine = report and report['code'] >= 0 and host.process.status == 0
        newcomer = any(h is not host and h.killed and (h.job, h.source) == (host.job, host.source)
                       for h in self.play.hosts)
        return 'done' if fine and (newcomer or report['done'] >= steps) else 'failed'


def last_words(host):
    lines = [line for line in host.output.splitlines() if not line.startswith(('at ', 'end:'))]
    if host.is_program:
        status = host.process.status
        return '\n'.join(['signal %d:' % -status if status < 0 else 'exit status %d:' % status] + (lines[-5:] or ['no output']))
    return lines[-1] if lines else 'no output'


def within(value, least, most):
    return (least is None or value >= least) and (most is None or value <= most)


def bounds_text(bounds):
    least, most = bounds
    if most is None:
        return 'at least %g' % least
    return 'at most %g' % most if least is None else 'in %g..%g' % (least, most)


class Verdict:
    """The problems of a run. free: the outcome without faults, or None. after: problems of the switch after the run."""

    def __init__(self, outcome, free, after):
        self.outcome, self.free, self.after = outcome, free, list(after)
        self.expect = outcome.play.scenario['expect']
        self.problems = outcome.problems[:10] + ['hung: ' + h for h in outcome.hung]
        for action in outcome.play.missed:
            self.problems.append('too late for %s' % json.dumps(
                {k: v for k, v in action.items() if v not in (None, False, 0)}))
        self.check_ends()
        self.check_counts()
        self.problems += self.after

    @property
    def wrong(self):
        return self.outcome.wrong + (self.free.wrong if self.free else 0)

    @property
    def hung(self):
        return len(self.outcome.hung) + (len(self.free.hung) if self.free else 0)

    @property
    def passed(self):
        return not self.problems and not self.wrong and not self.hung

    def of_host(self, which, host, default):
        """The expectation of a host, the most specific first."""
        found = self.expect[which]
        if str(host.host) in found:
            return found[str(host.host)]
        if host.host == self.outcome.play.random_host and 'random' in found:
            return found['random']
        return found.get('all', default)

    def check_ends(self):
        latest = {}
        for host in self.outcome.play.hosts:
            latest[host.job, host.source] = host
        for host in latest.values():
            if host.endless or host.hung:
                continue
            wanted, found = self.of_host('ends', host, 'done'), self.outcome.end_of(host)
            if wanted not in ('any', found):
                self.problems.append('%s: %s, not %s: %s' % (host.name, found, wanted, last_words(host)))
            says = self.of_host('says', host, None)
            if says and not re.search(says, host.output):
                self.problems.append('%s: no output matches "%s": %s' % (host.name, says, last_words(host)))
        if self.free:
            for host in self.free.play.hosts:
                if self.free.end_of(host) != 'done':
                    self.problems.append('without faults, %s: %s' % (host.name, last_words(host)))
            self.problems += ['without faults, ' + text for text in self.free.problems + self.free.hung]

    def check_counts(self):
        for name, bounds in self.expect['counts'].items():
            value = self.outcome.counts.get(name)
            if value is None:
                self.problems.append('there is no count "%s"' % name)
            elif not within(value, *bounds):
                self.problems.append('%s: %d, not %s' % (name, value, bounds_text(bounds)))
        most = self.expect['slowdown_at_most']
        if most is not None and self.slowdown is None:
            self.problems.append('slowdown unknown: no host reached its end')
        elif most is not None and self.slowdown > most:
            self.problems.append('%.1f times as long as without faults, not at most %g' % (
                self.slowdown, most))
        bounds, longest = self.expect['longest_ms'], self.outcome.longest_ms
        if bounds is not None and longest is None:
            self.problems.append('longest operation unknown: no host reached its end')
        elif bounds is not None and not within(longest, *bounds):
            self.problems.append('longest operation: %d ms, not %s' % (longest, bounds_text(bounds)))
        bounds, pings = self.expect['pings_lost_percent'], self.outcome.play.ping_loss()
        if bounds is not None:
            lost = 100 * (1 - pings[1] / pings[0]) if pings and pings[0] else 100
            if not within(lost, *bounds):
                self.problems.append('%.1f %% of the pings are lost, not %s' % (lost, bounds_text(bounds)))

    @property
    def slowdown(self):
        if self.free and self.free.seconds and self.outcome.seconds:
            return self.outcome.seconds / self.free.seconds
        return None

    def table(self):
        """For people: with faults, and without."""
        scenario, play = self.outcome.play.scenario, self.outcome.play
        steps = sum(j['steps'] * len(j['hosts']) for j in scenario['jobs'] if not j['endless'])
        two = [self.outcome, self.free]

        def row(name, form, of, more=''):
            cells = [form % of(o) if o and of(o) is not None else '-' for o in two]
            return '  %-34s %12s %12s  %s' % (name, cells[0], cells[1], more)

        def counts(*names):
            return lambda o: ' / '.join('%d' % o.counts.get(n, 0) for n in names)

        lines = ['%s: %s' % (scenario['name'], scenario['about']),
                 '  %-34s %12s %12s' % ('', 'faults', 'none'),
                 row('operations', '%d', lambda o: o.operations, 'of %d' % steps if steps else ''),
                 row('packets lost', '%s', counts('lost')),
                 row('        repaired', '%s', counts('repaired')),
                 row('        duplicated', '%s', counts('duplicated')),
                 row('repeated without need', '%.3f %%', lambda o: o.needless),
                 row('blocks complete', '%s', counts('complete')),
                 row('       partial / error', '%s', counts('partial', 'error')),
                 row('       late / expired', '%s', counts('late', 'expired')),
                 row('sources expelled, rejoins', '%s', counts('expelled', 'rejoins')),
                 row('wrong', '%d', lambda o: o.wrong),
                 row('hung', '%d', lambda o: len(o.hung)),
                 row('longest operation', '%.0f ms', lambda o: o.longest_ms),
                 row('time', '%.2f s', lambda o: o.seconds,
                     '%.1f times as long' % self.slowdown if self.slowdown else '')]
        if play.ping_loss():
            lines.append('  %-34s %12s' % ('pings sent / answered', '%d / %d' % tuple(play.ping_loss())))
        lines += ['  WRONG: ' + problem.replace('\n', '\n    ') for problem in self.problems]
        lines.append('  %s, seed %d; again: weir-faults run %s --seed %d' % (
            'passed' if self.passed else 'FAILED', play.seed, scenario['file'], play.seed))
        return '\n'.join(lines)

    def report(self):
        """For programs."""
        def one(outcome):
            return outcome and {
                'operations': outcome.operations, 'wrong': outcome.wrong, 'hung': outcome.hung,
                'seconds': outcome.seconds, 'needless_percent': outcome.needless, 'longest_ms': outcome.longest_ms,
                'counts': outcome.counts,
                'hosts': [{'host': h.host, 'job': h.job, 'source': h.source, 'end': outcome.end_of(h),
                           'status': h.process.status, 'report': h.report} for h in outcome.play.hosts]}
        scenario = self.outcome.play.scenario
        return {'scenario': scenario['name'], 'about': scenario['about'], 'file': scenario['file'],
                'seed': self.outcome.play.seed, 'passed': self.passed, 'wrong': self.wrong,
                'hung': self.hung, 'slowdown': self.slowdown, 'problems': self.problems,
                'faults': one(self.outcome), 'none': one(self.free)}
