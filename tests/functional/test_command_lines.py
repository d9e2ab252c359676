#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the command lines of all programs have in common."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

from tap import case, check, main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
APPS = os.path.join(os.environ['WEIR_BUILD'], 'apps')
CTL, BENCH, CAPTURE = [os.path.join(APPS, *path) for path in (('ctl', 'weirctl'), ('bench', 'weir-bench'), ('capture', 'weir-capture'))]
PERF = os.path.join(APPS, 'perf', 'weir-perf')
PROGRAMS = [[CTL], [CTL, 'counters'], [CTL, 'trace'], [CTL, 'run'], [PERF], [BENCH], [BENCH, 'engine'], [BENCH, 'hash'],
            [BENCH, 'kernels'], [BENCH, 'plan'], [CAPTURE], [os.path.join(APPS, 'switch', 'weir-switch')],
            *([os.path.join(ROOT, 'apps', *path)] for path in (('faults', 'weir-faults'), ('program', 'weir-program'), ('compare', 'compare.py'),
              ('stragglers', 'stragglers.py'), ('stragglers', 'losses.py'), ('train', 'train.py')))]
PLAN = [BENCH, 'plan', '--cost', '291']


def run(words, status=0):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    check(done.returncode == status, '%s ends with %d:\n%s%s', words, done.returncode, done.stdout, done.stderr)
    return done


@case
def every_program_has_help_and_a_version_and_refuses_what_it_does_not_know():
    for words in PROGRAMS:
        name = os.path.basename(words[0])
        for option in '-V', '--version':
            check(re.fullmatch(re.escape(name) + r' \d+\.\d+\.\d+\n', run([*words, option]).stdout), '%s %s', words, option)
        check('--version' in run([*words, '--help']).stdout or name == 'weir-faults', '%s', words)
        check('--nonsense' in run([*words, '--nonsense'], 2).stderr, '%s', words)


@case
def a_letter_means_one_thing():
    """But for the letters of nccl-tests, which weir-perf takes."""
    meaning = {}
    for words in PROGRAMS:
        for letter, name in re.findall(r'^ +-(\w)(?:\[?[\w|]*\]?)?, --([\w-]+)', run([*words, '--help']).stdout, re.M):
            if words == [PERF] and letter != 'V':
                check(letter in 'befincdorwC', 'nccl-tests has no -%s', letter)
                continue
            check(meaning.setdefault(letter, name) == name, '-%s of %s is --%s elsewhere', letter, words, meaning[letter])
    check(meaning['j'] == 'json' and len(meaning) > 8, '%s', meaning)


@case
def json_goes_to_standard_output_or_into_a_file():
    """Where a program prints tables, too, these then go to standard error."""
    hashes = [BENCH, 'hash', '--huge', 'no', '--repeat', '1', '--records', '64', '--load', '50', '--phase', '1']
    capture = [CAPTURE, '-c', os.path.join(ROOT, 'configs', 'pktgen', 'memif.json'), '--job', 'two', '--blocks', '2']
    with tempfile.TemporaryDirectory(prefix='weir-json-') as folder:
        path = os.path.join(folder, 'found.json')
        for words, table in (PLAN, True), (hashes, True), ([*capture, '-o', os.path.join(folder, 'pcap')], False):
            done = run([*words, '--json'])
            check(json.loads(done.stdout) and bool(done.stderr) == table, '%s: %s', words, done)
            done = run([*words, '--json=' + path])
            with open(path) as file:
                check(json.load(file), '%s', words)
            check(bool(done.stdout) == table and not done.stderr, '%s: %s', words, done)
            check(run([*words, '--json=/no/folder'], 1).stderr, '%s', words)
            os.unlink(path)
        check('--json=FILE' in run([*capture, '-o', '-', '--json'], 2).stderr, 'both to standard output')
        check(run([CTL, '--json=/no/folder', 'jobs'], 2).stderr, 'weirctl')


@case
def times_have_units():
    """The same in C and in Python; an option that took a number takes it as before."""
    capture = [CAPTURE, '-c', os.path.join(ROOT, 'configs', 'pktgen', 'memif.json'), '--job', 'two', '--blocks', '2', '-o', '/dev/null']
    for words, option, good, bad in ((capture, '--gap', '1ms 1000 0', '2s 1x -1 1,5ms'), (PLAN, '--timeout', '0.5s 500 1min', '2min 0 1x'),
                                     (PLAN, '--size', '4K 1000 1G', '4KiB 1x'), (PLAN, '--cost', '0.3us 300', '1s x')):
        for value in good.split():
            run([*words, option, value])
        for value in bad.split():
            check(option in run([*words, option + '=' + value], 2).stderr, '%s %s', option, value)


@case
def exit_statuses_are_those_of_the_table():
    """In --help, in weir(7), and in the page of each program."""
    with open(os.path.join(ROOT, 'apps', 'report', 'options.h')) as file:
        table = dict(re.findall(r'X\([A-Z]+, (\d), "(.*)"\)', file.read()))
    check(sorted(table) == list('0123'), '%s', table)
    for words in PROGRAMS:
        told = re.sub(r'\s+', ' ', run([*words, '--help']).stdout)
        if words[0].startswith(APPS) and words[1:] != ['plan']:
            check(all('%s %s' % row in told for row in table.items()), '%s: %s', words, told)
    with open(os.path.join(os.environ['WEIR_BUILD'], 'docs', 'weir.7')) as file:
        page = file.read()
    check(all(re.search(r'^\.It %s\n%s' % (value, text[:20]), page, re.M | re.I) for value, text in table.items()), '%s', page)
    pages = glob.glob(ROOT + '/docs/man/*.[18]') + [ROOT + '/apps/ctl/weirctl.1']
    for path in pages:
        with open(path) as file:
            part = re.search(r'^\.Sh EXIT STATUS\n(.*?)^\.Sh ', file.read(), re.M | re.S).group(1)
        check('.Xr weir 7' in part and set(re.findall(r'\b\d+\b', part)) - {'1n', '7', '126', '127'} <= set(table), '%s: %s', path, part)
    check(len(pages) == 7, '%s', pages)
    # A file that is wrong is as a command line that is wrong.
    for words in ([CAPTURE, '-c', __file__, '-o', '/dev/null'], [os.path.join(APPS, 'switch', 'weir-switch'), '-c', __file__],
                  [os.path.join(ROOT, 'apps', 'faults', 'weir-faults'), 'check', __file__], [PERF, '--shapes', '/no', '--switch', 'unix:/no']):
        run(words, 2)
    run([CTL, '-s', 'unix:/nowhere', 'jobs'], 3)


if __name__ == '__main__':
    sys.exit(main())
