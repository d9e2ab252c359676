#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Check the life of a block (block.pml), and of one in a tree of switches (tree.pml), with spin. Prints TAP.

    check.py [--large] [--tree] [NAME...]

Each case is a configuration of the model that must hold, or one with a fault planted that must be
found, for the right reason. --large: more and larger configurations, which take minutes, instead (make model). --tree: those
of tree.pml, instead. NAME: only the cases whose name has this in it. A trail of what went wrong is kept, and named.
"""
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = ['block.pml', 'tree.pml', 'switch.pml', 'join.pml', 'source.pml']
MEMORY_MB = 1000  # what one search may use
SECONDS = 300  # that one search may take; on a machine that is busy, too
LARGE_SECONDS = 1800

LOSSY = 'LOSSES=1 DUPLICATES=1 '
AGAIN = 'LIVES=2 EPOCHS=2 '  # who fails opens again, once

# name, definitions; one for each thing that may happen. LARGE has more of them, and together.
HOLDS = [
    ('wait: two losses, two duplicates', 'LOSSES=2 DUPLICATES=2'),
    ('partial, window 2: any packet at any time', 'ADVERSARY POLICY=PARTIAL WINDOW=2'),
    ('error: loss, duplicate', LOSSY + 'POLICY=ERROR'),
    ('the switch restarts: loss, duplicate', LOSSY + 'RESTARTS=1 LIVES=2 EPOCHS=3'),
    ('a source crashes, and revokes the others: loss', 'LOSSES=1 CRASHES=1 REVOKE BLOCKS=2 ' + AGAIN),
    ('partial: silent sources are expelled: loss', 'LOSSES=1 POLICY=PARTIAL DEAD_AFTER'),
    ('a source comes back: loss, duplicate', LOSSY + 'POLICY=PARTIAL AWAY=2'),
    ('acknowledgements, three blocks: any packet at any time', 'ADVERSARY POLICY=PARTIAL AWAY=3'),
    ('a source moves while it joins, one crashes, and revokes',
     'MOVES CRASHES=1 REVOKE WINDOW=2 BLOCKS=2 ' + AGAIN),
    ('batches, in order: two duplicates', 'DUPLICATES=2 BATCH ORDERED'),
    ('batches, a source crashes, and is expelled: any packet at any time',
     'ADVERSARY BATCH CRASHES=1 POLICY=PARTIAL DEAD_AFTER'),
]
LARGE = [
    ('acknowledgements, window 2: any packet at any time',
     'ADVERSARY POLICY=PARTIAL AWAY=3 WINDOW=2'),
    ('partial: silent sources are expelled: loss, duplicate', LOSSY + 'POLICY=PARTIAL DEAD_AFTER'),
    ('wait, window 2: loss, duplicate', LOSSY + 'WINDOW=2'),
    ('wait, window 2: any packet at any time', 'ADVERSARY WINDOW=2'),
    ('partial: loss, duplicate', LOSSY + 'POLICY=PARTIAL'),
    ('error, window 2: any packet at any time', 'ADVERSARY POLICY=ERROR WINDOW=2'),
    ('the switch restarts: any packet at any time', 'ADVERSARY BLOCKS=2 RESTARTS=1 ' + AGAIN),
    ('a source crashes: loss', 'LOSSES=1 CRASHES=1 POLICY=PARTIAL BLOCKS=2 ' + AGAIN),
    ('a source crashes: any packet at any time', 'ADVERSARY CRASHES=1 POLICY=PARTIAL BLOCKS=2 ' + AGAIN),
    ('a source crashes twice: any packet at any time',
     'ADVERSARY CRASHES=2 WINDOW=2 BLOCKS=2 LIVES=3 EPOCHS=2'),
    ('a source crashes, and revokes the others: any packet at any time',
     'ADVERSARY CRASHES=1 REVOKE WINDOW=2 BLOCKS=2 ' + AGAIN),
    ('a source crashes, and is expelled: any packet at any time',
     'ADVERSARY CRASHES=1 POLICY=PARTIAL DEAD_AFTER'),
    ('a source is away, and acknowledges: two losses, two duplicates',
     'LOSSES=2 DUPLICATES=2 POLICY=PARTIAL BLOCKS=4 AWAY=4'),
    ('acknowledgements: any packet at any time', 'ADVERSARY POLICY=PARTIAL AWAY=3 BLOCKS=4'),
    ('a source is away, and may be expelled: any packet at any time',
     'ADVERSARY POLICY=PARTIAL AWAY=3 DEAD_AFTER'),
    ('one is away, and one crashes, is expelled, revokes: loss',
     'LOSSES=1 CRASHES=1 REVOKE POLICY=PARTIAL DEAD_AFTER AWAY=2 BLOCKS=2 ' + AGAIN),
    ('a source moves while it joins, window 2: loss', 'LOSSES=1 MOVES WINDOW=2'),
    ('batches, window 2: loss, duplicate', LOSSY + 'BATCH WINDOW=2'),
    ('batches, partial, window 2: any packet at any time', 'ADVERSARY BATCH POLICY=PARTIAL WINDOW=2'),
    ('three sources, partial: any packet at any time', 'ADVERSARY SOURCES=3 POLICY=PARTIAL BLOCKS=2'),
    ('wait, window 2: two losses, two duplicates', 'LOSSES=2 DUPLICATES=2 WINDOW=2'),
    ('partial, window 2: loss', 'LOSSES=1 POLICY=PARTIAL WINDOW=2'),
    ('partial: two losses, two duplicates', 'LOSSES=2 DUPLICATES=2 POLICY=PARTIAL'),
    ('error, window 2: loss, duplicate', LOSSY + 'POLICY=ERROR WINDOW=2'),
    ('a source crashes, window 2: any packet at any time',
     'ADVERSARY CRASHES=1 POLICY=PARTIAL WINDOW=2 ' + AGAIN),
    ('one is away, and one crashes, is expelled, revokes: any packet at any time',
     'ADVERSARY CRASHES=1 REVOKE POLICY=PARTIAL DEAD_AFTER AWAY=2 BLOCKS=2 ' + AGAIN),
    ('a source is away, the switch restarts: any packet at any time',
     'ADVERSARY RESTARTS=1 POLICY=PARTIAL AWAY=2 BLOCKS=2 ' + AGAIN),
    ('three sources, partial, three blocks: any packet at any time',
     'ADVERSARY SOURCES=3 POLICY=PARTIAL'),
]

# What spin says when it finds it.
HANG = r'assertion violated excused \('
WRONG = r'assertion violated \(\w+!=0\)'
FORMER = r'assertion violated \(.*==epoch\['
PART = r'assertion violated \(\(told\['
BUFFERS = r'assertion violated \(buffers<='
REFUSED = r'assertion violated \(excused\|\|'
PLACE = r'assertion violated \(began_with\['
ASKED = r'assertion violated \(.*began_with\['
AT_ONCE = r'assertion violated .*following'
OVERTAKEN = r'assertion violated \(b>=next\['
RESTART = 'ADVERSARY RESTARTS=1 ' + AGAIN

# fault, definitions, what is found
FAULTS = [
    ('RELEASED_EARLY', 'LOSSES=1', REFUSED),
    ('NOT_ACKNOWLEDGED', 'LOSSES=1 POLICY=PARTIAL', HANG),
    ('ACKNOWLEDGED_EARLY', 'ADVERSARY POLICY=PARTIAL AWAY=3', REFUSED),
    ('ACKNOWLEDGEMENT_COUNTED', 'ADVERSARY POLICY=PARTIAL AWAY=3', WRONG),
    ('ACKNOWLEDGEMENT_NOT_ANSWERED', 'LOSSES=1 POLICY=PARTIAL AWAY=3', HANG),
    ('NOT_HELD_BACK', 'ADVERSARY POLICY=PARTIAL', BUFFERS),
    ('FRESH_RECORD', 'ADVERSARY', BUFFERS),
    ('DUPLICATE_ADDED', 'ADVERSARY', WRONG),
    ('LATE_ADDED', 'ADVERSARY POLICY=PARTIAL', PART),
    ('NO_BITMAP', 'ADVERSARY POLICY=PARTIAL', WRONG),
    ('EXPELLED_IN_RESULT', 'ADVERSARY POLICY=PARTIAL DEAD_AFTER', WRONG),
    ('NOT_ANSWERED', 'LOSSES=1', HANG),
    ('NOT_REPEATED', 'LOSSES=1', HANG),
    ('WINDOW_IGNORED', 'ADVERSARY', REFUSED),
    ('ANY_GENERATION', RESTART, WRONG),
    ('NUMBER_REUSED', RESTART, FORMER + '|' + WRONG),
    ('RESULT_OF_ANY_GENERATION', RESTART, FORMER),
    ('JOIN_NOT_ANSWERED', 'LOSSES=1', HANG),
    ('NOT_FOLLOWED', 'MOVES', HANG),
    ('FOLLOWED_MEANWHILE', 'MOVES CRASHES=1 REVOKE BLOCKS=2 ' + AGAIN, AT_ONCE),
    ('ACCEPTED_EARLY', 'ADVERSARY WINDOW=2', REFUSED),
    ('LATE_JOIN_REVOKES', 'ADVERSARY CRASHES=1 REVOKE BLOCKS=2 LIVES=2 EPOCHS=3', ASKED),
    ('OVERTAKES', 'DUPLICATES=1 BATCH ORDERED', OVERTAKEN),
    ('HEARD_WHEN_ADDED', 'DUPLICATES=1 BATCH', WRONG),
    ('TOLD_WHILE_WALKING', 'ADVERSARY CRASHES=2 WINDOW=2 BLOCKS=2 LIVES=3 EPOCHS=2', PLACE),
]


PARTIAL = 'POLICY=PARTIAL '
REJOIN = 'EPOCHS=3 LIVES=3 BLOCKS=1 '
RACK_AWAY = PARTIAL + 'AWAY=3 SLOW=0 SLOW_LEAVES=1'

TREE_HOLDS = [
    ('a straggler, and a leaf is late', PARTIAL + 'SLOW_LEAVES=1'),
    ('a rack is away, and acknowledges', RACK_AWAY),
    ('a leaf restarts, and a leaf is late', REJOIN + PARTIAL + 'RESTARTS=1 SLOW_LEAVES=1'),
    ('a host crashes, and comes back', REJOIN + 'CRASHES=1'),
]
TREE_LARGE = [
    ('wait', 'BLOCKS=3 SLOW=0'),
    ('a host is dead', PARTIAL + 'DEAD=1'),
    ('a host is away, and acknowledges', PARTIAL + 'AWAY=1'),
    ('a straggler, and three blocks', PARTIAL + 'BLOCKS=3'),
    ('any leaf loses patience with any host', PARTIAL + 'SLOW=15'),
    ('a straggler in each rack, any leaf is late', PARTIAL + 'SLOW=5 SLOW_LEAVES=3'),
    ('a host is away, and three blocks', PARTIAL + 'AWAY=1 SLOW=0 BLOCKS=3'),
    ('a rack is away, and any of its hosts is late', PARTIAL + 'AWAY=3 SLOW=3 SLOW_LEAVES=1'),
    ('a leaf restarts, and two blocks', 'RESTARTS=1 EPOCHS=3 SPARE=2 LIVES=3'),
    ('a leaf restarts, and a host crashes', 'RESTARTS=1 CRASHES=1 EPOCHS=4 SPARE=2 LIVES=4 BLOCKS=1'),
]

# What spin says when it finds it.
TREE_HANG = r'assertion violated .*\(excused&& !'
MIXED = r'assertion violated .*came_from\['
RACK_LATE = r'assertion violated +\( !\(.*heard!=0'
OVERWRITTEN = r'assertion violated .*lived!='
UNKNOWN_ABOVE = r'assertion violated +!\(+current\[r\]'

# Behind each: the test of tests/eal/test_ppe_up.c, or test_ppe_up_joins.c, that fails when the switch has the fault.
TREE_FAULTS = [
    ('ACKNOWLEDGED_ABOVE_EARLY', PARTIAL + 'SLOW=0 SLOW_LEAVES=1', UNKNOWN_ABOVE),  # up_and_down
    ('RELEASED_BEFORE_HOSTS', PARTIAL + 'BLOCKS=3', REFUSED),  # held_back
    ('WAITS_FOR_HOSTS', PARTIAL + 'DEAD=1', RACK_LATE),  # partial
    ('SUM_DROPPED', 'SLOW=0', WRONG),  # a_repetition_goes_up_once_per_millisecond
    ('NO_BITMAP_ABOVE', PARTIAL, WRONG),  # partial
    ('LATE_ADDED_ABOVE', PARTIAL, WRONG),  # partial
    ('LATE_INCLUDED', PARTIAL, PART),  # not_asked_for
    ('ANSWERED_BELOW', PARTIAL, OVERWRITTEN),  # up_and_down
    ('NOT_REPEATED_ABOVE', 'SLOW=0', TREE_HANG),  # a_repetition_goes_up_once_per_millisecond
    ('NOT_ACKNOWLEDGED_ABOVE', RACK_AWAY, TREE_HANG),  # acknowledgements
    ('UNASKED_DROPPED', RACK_AWAY, TREE_HANG),  # not_asked_for
    ('TIMEOUTS_NOT_NESTED', PARTIAL + 'AWAY=1', RACK_LATE),  # settings_must_agree
    ('RESTART_KEEPS_NONCE', REJOIN + 'RESTARTS=1', MIXED),  # nonces_are_new_after_a_restart
    ('NONCE_USED_AGAIN', REJOIN + 'CRASHES=1', MIXED),  # a_host_joins_anew
    ('BEGUN_BEFORE_ABOVE', REJOIN + 'RESTARTS=1', TREE_HANG),  # a_host_joins_anew
    ('STALE_NOT_PASSED', REJOIN + 'RESTARTS=1', TREE_HANG),  # stale_from_above
    ('ABOVE_OF_ANY_GENERATION', REJOIN + 'RESTARTS=1', OVERWRITTEN),  # not_from_parent
]


def limit():
    resource.setrlimit(resource.RLIMIT_AS, ((MEMORY_MB + 100) << 20,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(folder, seconds, *argv):
    """Run a program in the folder. Returns (status, output)."""
    try:
        done = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=seconds, check=False,
                              preexec_fn=limit)
    except subprocess.TimeoutExpired:
        return 124, '%s: longer than %d s' % (argv[0], seconds)
    return done.returncode, done.stdout


def search(folder, model, definitions, compiler, seconds):
    """Search the states of a model. Returns (output of the search, what went wrong before it or None)."""
    for name in MODEL:
        shutil.copy(os.path.join(HERE, name), folder)
    options = ['-D' + word for word in definitions.split()]
    status, text = run(folder, 60, 'spin', *options, '-a', model)
    if status != 0 or 'rror' in text:
        return text, 'spin does not take the model'
    status, text = run(folder, 120, *compiler, '-w', '-DSAFETY', '-DNOFAIR',
                       '-DMEMLIM=%d' % MEMORY_MB, '-o', 'pan', 'pan.c')
    if status != 0:
        return text, 'the checker does not compile'
    status, text = run(folder, seconds, './pan', '-m100000', '-w22')
    if status == 124:
        return text, text
    return text, None


def figures(text):
    """States and depth of a search, in words."""
    states = re.search(r'^ *([\d.e+]+) states, stored', text, re.M)
    depth = re.search(r'depth reached (\d+)', text)
    if not states or not depth:
        return 'no figures'
    return '%d states, depth %s' % (float(states.group(1)), depth.group(1))


def incomplete(text):
    """Why the search has not seen all states; None: it has."""
    for sign in ('Search not completed', 'max search depth', 'MEMLIM', 'out of memory', 'hash-compact'):
        if sign in text:
            return sign
    return None if re.search(r'errors: \d', text) else 'no result'


def judge_holds(text):
    found = re.search(r'^pan:\d+: (.*)$', text, re.M)
    if found:
        return found.group(1)
    if not re.search(r'errors: 0\b', text):
        return 'the search has not ended'
    return incomplete(text)


def judge_fault(text, wanted):
    found = re.search(r'^pan:\d+: (.*)$', text, re.M)
    if not found:
        return 'the fault is not found'
    return None if re.match(wanted, found.group(1)) else 'found is: ' + found.group(1)


def check(model, definitions, wanted, seconds):
    """One case. Returns (what is wrong or None, [lines to print])."""
    folder = tempfile.mkdtemp(prefix='weir-spin-')
    began = time.monotonic()
    # Of the searches of `make test` the longest part is gcc's.
    compiler = ['gcc', '-Og'] if seconds == LARGE_SECONDS else ['tcc'] if shutil.which('tcc') else ['gcc', '-O0']
    text, wrong = search(folder, model, definitions, compiler, seconds)
    if wrong is None:
        wrong = judge_holds(text) if wanted is None else judge_fault(text, wanted)
    lines = ['%s: %s, %.1f s' % (definitions, figures(text), time.monotonic() - began)]
    if wrong is None:
        shutil.rmtree(folder)
        return None, lines
    lines += [wrong] + text.splitlines()[-20:]
    lines.append('to replay: cd %s && spin %s -t -p -g %s' % (
        folder, ' '.join('-D' + word for word in definitions.split()), model))
    return wrong, lines


def main():
    words = sys.argv[1:]
    large, tree = '--large' in words, '--tree' in words
    words = [word for word in words if word not in ('--large', '--tree')]
    if any(word.startswith('-') for word in words):
        sys.exit(__doc__)
    model = 'tree.pml' if tree else 'block.pml'
    holds = (TREE_LARGE if tree else LARGE) if large else TREE_HOLDS if tree else HOLDS
    cases = [(name, definitions, None) for name, definitions in holds]
    if not large:
        cases += [('a fault is found: ' + fault, 'BUG_%s %s' % (fault, definitions), wanted)
                  for fault, definitions, wanted in (TREE_FAULTS if tree else FAULTS)]
    cases = [case for case in cases if not words or any(word in case[0] for word in words)]
    failed = 0
    print('1..%d%s' % (len(cases), '' if cases else ' # no such case'), flush=True)
    if shutil.which('spin') is None:
        for number, case in enumerate(cases, 1):
            print('ok %d - %s # SKIP no spin (Debian package spin)' % (number, case[0]))
        return 0
    for number, (name, definitions, wanted) in enumerate(cases, 1):
        wrong, lines = check(model, definitions, wanted, LARGE_SECONDS if large else SECONDS)
        failed += wrong is not None
        print('%sok %d - %s' % ('not ' if wrong else '', number, name))
        for line in lines:
            print('# ' + line)
        sys.stdout.flush()
    return 1 if failed or not cases else 0


if __name__ == '__main__':
    sys.exit(main())
