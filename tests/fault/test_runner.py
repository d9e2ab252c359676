#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir-faults notices what is planted: wrong sums, hosts that hang, expectations that do not hold, and what
does not come home."""
import os
import re
import subprocess
import tempfile
import types
import xml.etree.ElementTree as xml

from faults import PROGRAM, Ended, module

import play
from tap import Skip, case, check, main
from verdict import Outcome

TINY = {'about': 'planted', 'hosts': 2, 'jobs': [{'steps': 20, 'count': 600, 'op_timeout_ms': 60000}]}


def tiny(job=None, **more):
    made = dict(TINY, **more)
    made['jobs'] = [dict(TINY['jobs'][0], **(job or {}))]
    return made


def fails(run, *patterns):
    check(run.status == 1 and not run.report['passed'], 'not a failure: %s', run)
    for pattern in patterns:
        check(re.search(pattern, run.output), '"%s" is not in %s', pattern, run)


def hangs(at, made):
    """Run a scenario with a host that hangs at an operation, with the time to come so far, and no timeout before."""
    made['jobs'][0]['op_timeout_ms'] = 600000
    for seconds in (4, 40, 400):
        run = Ended('run', dict(made, seconds=seconds))
        if re.search(r'hung: host 1 .*: still at operation %d after %d' % (at, seconds), run.output):
            break
    return run


@case
def a_wrong_sum_is_counted():
    run = Ended('run', tiny({'plant': {'host': 1, 'what': 'wrong', 'step': 7}}))
    fails(run, r'host 0 .*: 1 elements of operation 7 are wrong', r'\n  wrong +2 +0 ')
    check(run.report['wrong'] == 2 and run.report['hung'] == 0, '%s', run.report)


@case
def a_host_that_hangs_is_counted_and_named():
    run = hangs(5, tiny({'plant': {'host': 1, 'what': 'hang', 'step': 5}}))
    fails(run, r'hung: host 1 \(job 1, source 1\): still at operation 5 after ', r'\n  hung +2 +0 ',
          r'job1: .*10\.77\.0\.2')
    check(run.report['hung'] == 2 and run.report['wrong'] == 0, '%s', run.report)


@case
def what_is_planted_in_a_tree_is_found_in_each_rack():
    tree = {'leaves': 2, 'spines': 2, 'hosts': 2}
    made = [dict(tiny({'plant': {'host': 3, 'what': what, 'step': 7}}), tree=tree) for what in ('wrong', 'hang')]
    for one in made:
        one.pop('hosts')
    wrong, hang = Ended('run', made[0]), hangs(7, made[1])
    fails(wrong, r'host 0 .*: 1 elements of operation 7 are wrong', r'host 3 .*: 1 elements', r'\n  wrong +4 +0 ')
    # Whichever switch is asked, it asks the others, and the host that is missing is named.
    fails(hang, r'hung: host 0 .*: still at operation 7 after ', r'\n  hung +4 +0 ',
          *[r'(?m)^( +)%s: .*(\n\1 .*)*rank 3 \(10\.77\.1\.2\)' % name for name in ('leaf0', 'leaf1', 'spine0', 'spine1')])
    check('does not answer' not in hang.output, '%s', hang)
    counts = wrong.report['faults']['counts']
    check(counts['spine0.blocks_complete'] + counts['spine1.blocks_complete'] == counts['complete'] ==
          counts['leaf1.job1.blocks_complete'] == 61, '%s', counts)


@case
def a_host_that_leaves_is_noticed():
    run = Ended('run', tiny({'plant': {'host': 1, 'what': 'leave', 'step': 5}, 'op_timeout_ms': 3000}))
    fails(run, r'host 1 .*: failed, not done', r'host 0 .*: failed, not done: failed: -110 ')


@case
def expectations_have_to_hold():
    run = Ended('all', tiny(expect={'counts': {'lost': [1, None]}}),
                tiny(expect={'counts': {'lots': [1, None]}}),
                tiny(actions=[{'do': 'link_down', 'host': 1, 'for_ms': 10}, {'do': 'start', 'host': 1},
                              {'do': 'kill', 'host': 1, 'at_ms': 5000}, {'do': 'stop', 'host': 0, 'at_step': 1000}]),
                tiny({'steps': 300, 'pause_us': 5000}, hosts=1, actions=[{'do': 'kill', 'host': 0, 'at_step': 5}],
                     expect={'ends': {'all': 'killed'}, 'longest_ms': [0, None], 'slowdown_at_most': 100}), options=['--seed', 5])
    check(run.status == 1, '%s', run)
    suites = run.junit.findall('./testsuite')
    check([suite.find('testcase').get('name') for suite in suites] == ['scenario%d' % i for i in range(4)], '%s', run)
    for suite, report in zip(suites, run.report):
        failed, seed = suite.find('testcase/failure'), suite.find('properties/property')
        check((suite.get('tests'), suite.get('failures'), suite.get('errors')) == ('1', '1', '0') and float(suite.get('time')) > 0 and
              (seed.get('name'), seed.get('value')) == ('seed', '5'), '%s', suite.attrib)
        check(failed.get('message') == report['problems'][0] and failed.text in run.output, '%s', failed.text)
    for pattern in (r'lost: 0, not at least 1', r'there is no count "lots"', r'too late for \{"do": "stop"',
                    r'too late for \{"do": "kill"', r'too late for \{"do": "start"', 'slowdown unknown', 'longest operation unknown'):
        check(re.search(pattern, run.output), '"%s" is not in %s', pattern, run)
    check('too late for {"do": "link_down"' not in run.output, '%s', run)
    last = run.output.splitlines()[-1]
    check(last == 'faults: 0 passed, 4 failed, 0 wrong, 0 hung', '%s', last)


PROGRAM_SAYS = r"""
test "$1 $2 $3" = "10.77.0.254 10.77.0.$((WEIR_RANK + 1)) 10.77.0.1,10.77.0.2" || exit 9
test "$WEIR_SWITCH $WEIR_JOB $WEIR_RANK $WEIR_SIZE" = "http://10.77.0.254:8080 job1 $4 $5" || exit 8
echo at 1
case $WEIR_RANK/$6 in 1/wrong) echo 'wrong: step 1: 3' ;; 1/fail) echo 'no such file'; exit 3 ;;
*/hang) SLEEP & wait ;; */leave) SLEEP & bash -c 'set -m; SLEEP &' ;; esac
"""


def program(*words, **changes):
    return dict({'about': 'a program', 'hosts': 2, 'jobs': [{'host': words}]}, **changes)


@case
def a_users_program_is_a_host():
    sleep = 'sleep %d' % (1000000 + os.getpid())
    words = ['sh', '-c', PROGRAM_SAYS.replace('SLEEP', sleep), 'sh', '{switch}', '{address}', '{addresses}', '{rank}', '{size}']
    expect = {'says': {'all': '^at 1'}, 'counts': {'operations': [2, 2]}, 'slowdown_at_most': 1e6}
    run = Ended('all', program(*words, 'fine', expect=expect), program(*words, 'wrong'), program(*words, 'fail'),
                program(*words, 'hang', seconds=2), program(*words, 'leave'))
    passed = [report['passed'] for report in run.report]
    check(passed == [True, False, False, False, True] and run.output.endswith('faults: 2 passed, 3 failed, 1 wrong, 1 hung\n'), '%s', run)
    for pattern in (r'host 1 .*: 3 elements of operation 1 are wrong', r'host 1 .*: failed, not done: exit status 3:\n +no such file\n',
                    r'hung: host 0 .*: still at operation \d after 2'):
        check(re.search(pattern, run.output), '"%s" is not in %s', pattern, run)
    # What a program has started ends with it, also what is in a process group of its own.
    left = subprocess.run(['pgrep', '-fx', sleep], stdout=subprocess.PIPE, check=False).stdout
    check(left == b'', 'left: %s', left)
    for host, reason in (('./nowhere', r'there is no program ./nowhere in /'), ('weir-nowhere', 'there is no program weir-nowhere in PATH')):
        run = Ended('check', program(host))
        check(run.status == 2 and re.search(r'scenario0\.json: jobs\[0\]\.host\[0\]: ' + reason, run.output), '%s', run)


@case
def narrow_floats_are_rounded_on_each_level():
    jobs = [{'type': kind, 'op': op, 'steps': 5, 'count': 600, 'op_timeout_ms': 60000, 'options': {'narrow': True}}
            for kind, op in (('bf16', 'prod'), ('fp8_e5m2', 'sum'))]
    run = Ended('run', {'about': 'rounded', 'tree': {'leaves': 2, 'hosts': 2}, 'jobs': jobs})
    check(run.status == 0, '%s', run)


NOBODY = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
# root of a user namespace in which no more of them are made, and without capabilities
REFUSED = [*NOBODY, 'unshare', '-Ur', 'sh', '-c', 'echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all "$@"', 'sh']


@case
def an_ordinary_user_runs_scenarios():
    for words in (['unshare', '-Urnm', 'true'], ['test', '-r', PROGRAM]):
        if subprocess.run(NOBODY + words, check=False).returncode != 0:
            raise Skip('as nobody: %s fails' % ' '.join(words))
    run = Ended('run', tiny({'steps': 400, 'pause_us': 5000}, actions=[{'do': 'link_down', 'host': 1, 'at_step': 3, 'for_ms': 10}]), before=NOBODY)
    check(run.status == 0 and run.report['passed'], '%s', run)
    run = Ended('run', tiny(), before=[*NOBODY, 'unshare', '-Urn'])
    check(run.status == 0 and run.report['passed'], '%s', run)
    # Locked memory has a limit for users, so rings are smaller, but not too small.
    for kilobytes, status in ((1100, 0), (300, 2)):
        run = Ended('run', tiny(), before=[*NOBODY, 'prlimit', '--memlock=%d' % (kilobytes << 10)])
        check(run.status == status and ('need locked memory of 512 KiB, not 300' in run.output) == bool(status), '%s', run)
    run = Ended('run', tiny(), before=REFUSED)
    check(run.status == 2 and re.search('no network namespaces: .*No space left.*; be root, or let the kernel', run.output), '%s', run)


@case
def what_the_switch_refuses_is_refused():
    wrong = {'rules': [{'direction': 'in', 'action': 'drop', 'port': 'p9'}]}
    tree = {'about': 'a tree', 'tree': {'leaves': 2, 'hosts': 1}}
    for made, switch, reason in (
            (tiny(faults=wrong), 'the switch', 'faults.rules[0].port: no port has the name "p9"'),
            (tiny(actions=[{'do': 'faults', 'faults': wrong}]), 'the switch', 'faults.rules[0].port: '),
            (tiny({'options': {'windw': 64}}), 'the switch', 'jobs[0].windw: unknown key'),
            (tiny(switch={'workers': 7}), 'the switch', 'workers: '), (tiny(port={'mtu': 'x'}), 'the switch', 'ports[0].mtu: '),
            (dict(tree, jobs=[{'spine_options': {'timeout_ms': -1}}]), 'spine0', 'jobs[0].timeout_ms: ')):
        for command in ('check', 'run', 'all') if switch == 'spine0' else ('check',):
            run = Ended(command, made)
            text = 'scenario0.json: %s refuses its configuration: %s' % (switch, reason)
            check(run.status == 2 and text in run.output, '%s: %s', reason, run)
            if command != 'check':
                (told,) = run.junit.findall('./testsuite[@errors="1"][@failures="0"]/testcase/error')
                check(text in told.get('message') and text in told.text, '%s', told.attrib)
            check('switch.json' not in run.output, 'it names a file that is gone: %s', run)
    fine = tiny(actions=[{'do': 'faults', 'faults': {}}, {'do': 'faults', 'faults': {'rules': []}}])
    run = Ended('check', fine, dict(tree, jobs=[{'authenticate': True}]))
    check(run.status == 0 and run.output.count(': fine\n') == 2, '%s', run)


@case
def any_output_of_a_host_becomes_xml():
    with tempfile.TemporaryDirectory(prefix='weir-junit-') as folder:
        path = os.path.join(folder, 'x.xml')
        program = module()
        broken = program.Broken({'name': 'x', 'about': 'y', 'file': 'x.json'}, 7, 'a \x1b[1m \0 \ud800 <&\u00e9>')
        broken.seconds = 0.5
        program.junit(path, [broken])
        found = xml.parse(path).find('./testsuite[@errors="1"][@failures="0"]/testcase/error')
        check(found.get('message') == 'a ?[1m ? ? <&\u00e9>', '%s', found.attrib)
        try:  # another reader
            import junitparser
        except ImportError:
            return
        (suite,) = junitparser.JUnitXml.fromfile(path)
        (one,) = suite
        check((one.name, one.time, suite.errors, [(p.name, p.value) for p in suite.properties()]) ==
              ('x', 0.5, 1, [('seed', '7')]), '%s', one)


@case
def no_deleted_file_is_named():
    log = os.path.join(tempfile.gettempdir(), 'weir-12-3', 'switch.json')
    text = module().Broken({'name': 'x', 'about': 'y', 'file': 'x.json'}, 7, '%s: no' % log).table()
    check('switch.json: no' in text and log not in text, '%s', text)


@case
def times_count_from_when_an_action_is_done():
    clock = [100.0]
    made = object.__new__(play.Play)
    made.began, made.last, made.undo, did = 100.0, 100.0, [], []

    def slowly(what, _name):
        clock[0] += 5
        did.append((what, clock[0]))
    made.to_switch = slowly
    wanted = {'at_ms': 0, 'at_step': 0, 'for_ms': None, 'after_ms': 0, 'switch': True, 'link': None}
    actions = [dict(wanted, do='stop', for_ms=1000), dict(wanted, do='kill', after_ms=1000)]
    play.time, kept = types.SimpleNamespace(monotonic=lambda: clock[0]), play.time
    try:
        made.turn(actions)
        check(did == [('stop', 105.0)] and made.undo[0][0] == 106.0, '%s, %s', did, made.undo)
        clock[0] = 105.9
        made.turn(actions)
        check(len(did) == 1, 'too early: %s', did)
        clock[0] = 106.0
        made.turn(actions)
        check(did[1:] == [('continue', 111.0), ('kill', 116.0)] and made.last == 116.0, '%s', did)
    finally:
        play.time = kept


class Said:
    """A host of a play that is over."""

    def __init__(self, host, folder, *results, job=1):
        self.job, self.host, self.name = job, host, 'host %d' % host
        self.results = os.path.join(folder, 'results-%d-%d' % (job, host))
        with open(self.results, 'w') as file:
            file.write(''.join('%d %d %s\n' % r for r in results))


def outcome(hosts, **job):
    """An Outcome of which nothing is known yet but the play."""
    made = object.__new__(Outcome)
    made.play = types.SimpleNamespace(hosts=hosts, scenario={'jobs': [dict({'error_feedback': False}, **job)]})
    made.wrong, made.problems = 0, []
    return made


@case
def results_that_differ_among_hosts_are_wrong():
    with tempfile.TemporaryDirectory(prefix='weir-results-') as folder:
        same = [(7, 0, 'aa'), (7, 1, 'bb'), (9, 1, 'cc')]
        hosts = [Said(0, folder, *same), Said(1, folder, *same), Said(2, folder, *same[:2])]
        made = outcome(hosts + [Said(0, folder, (7, 0, 'ee'), job=2)])
        made.compare_results()
        check(made.wrong == 0, '%s', made.problems)
        made = outcome(hosts + [Said(3, folder, (7, 1, 'dd'))])
        made.compare_results()
        check(made.wrong == 1 and 'meeting 7, operation 1' in made.problems[0], '%s', made.problems)


@case
def what_is_not_delivered_is_wrong():
    with tempfile.TemporaryDirectory(prefix='weir-results-') as folder:
        hosts = [Said(i, folder) for i in range(2)]
        for got, wrong in ((700, 0), (699, 1)):
            reports = [{'code': 0, 'done': 9, 'given': 300, 'got': 700},
                       {'code': 0, 'done': 9, 'given': 400, 'got': got}]
            made = outcome(hosts, error_feedback=True, steps=9)
            made.compare_fed_back(list(zip(hosts, reports)))
            check(made.wrong == wrong, '%d of 700: %s', got, made.problems)
            made = outcome(hosts, error_feedback=True, steps=8)  # and one was done twice
            made.compare_fed_back(list(zip(hosts, reports)))
            check(made.wrong == 0, '%s', made.problems)


class Leaky:
    """Switches, one of which keeps a buffer."""

    def __init__(self, error=None):
        self.error = error

    def check_packets(self):
        if self.error:
            raise module().RackError(self.error)

    def renew_jobs(self):
        pass

    def levels(self):
        return {'memory.data': 147456, 'pools.packets': 4095}

    def stop(self):
        pass


@case
def what_does_not_come_home_is_told():
    program = module()
    program.HOME_S = 0.2
    found = program.home(Leaky(), {'memory.data': 147456, 'pools.packets': 4096})
    check(found == ['pools.packets: 4095, and 4096 before the hosts came'], '%s', found)
    found = program.home(Leaky('packets do not add up'), {})
    check(found == ['packets do not add up'], '%s', found)


@case
def the_same_seed_draws_the_same():
    slow = {'hosts': 2, 'least_ms': 1, 'most_ms': 3, 'chance_percent': 50}
    made = tiny({'stragglers': slow}, hosts=2, faults={'rules': [
        {'direction': 'in', 'what': 'contribution', 'first_block': 1, 'last_block': 3, 'action': 'drop',
         'choice': 'list', 'list': [1, 2]}]})
    runs = [Ended('run', made, options=['--seed', seed]).report for seed in (5, 5)]
    check(all(r['passed'] for r in runs), '%s', runs)
    check([r['faults']['counts']['hits.0'] for r in runs] == [4, 4], '%s', runs)


if __name__ == '__main__':
    main()
