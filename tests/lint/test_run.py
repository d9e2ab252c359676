#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The test runner sees every way in which a test can fail, also the quiet ones."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TAP = "printf 'ok 1 - a\\nok 2 - b\\n1..2\\n'"

# name, what the script does ($TAP is its TAP file), arguments of meson's test(), last line
TRIES = [
    ('two good cases', TAP, "protocol: 'tap'", r'2 passed, 0 failed$'),
    ('a plain program', 'true', '', r'1 passed, 0 failed$'),
    ('a plain program that fails', 'exit 1', '', r'0 passed, 1 failed$'),
    ('a skipped case', "echo 'ok 1 - a # SKIP no root'; echo ok 2; echo 1..2", "protocol: 'tap'",
     r'1 passed, 0 failed, 1 skipped$'),
    ('a failed case', "echo ok 1; echo '# seed 7'; echo not ok 2; echo '# why'; echo ok 3; echo '# fine'; echo 1..3; "
     'echo oops >&2', "protocol: 'tap'",
     r'2 passed, 1 failed$'),
    ('a crash after its cases', TAP + '; kill -SEGV $$', "protocol: 'tap'", r'2 passed, 1 failed$'),
    ('an exit status after its cases', TAP + '; exit 3', "protocol: 'tap'", r'2 passed, 1 failed$'),
    ('a timeout', TAP + '; exec sleep 30', "protocol: 'tap', timeout: 1", r'2 passed, 1 failed$'),
    ('no output at all', 'true', "protocol: 'tap'", r'0 passed, 1 failed$'),
    ('a plan that is not kept', 'echo 1..3; echo ok 1; echo ok 2', "protocol: 'tap'",
     r'2 passed, 1 failed$'),
    ('no plan', 'echo ok 1', "protocol: 'tap'", r'1 passed, 1 failed$'),
    ('giving up', "echo 1..1; echo 'Bail out!'", "protocol: 'tap'", r'0 passed, 1 failed$'),
    ('a TAP file', TAP + '>$TAP', 'args: @TAP@', r'2 passed, 0 failed$'),
    ('a TAP file with a failed case', "printf '1..2\\nok 1\\nnot ok 2\\n' >$TAP; exit 1",
     'args: @TAP@', r'1 passed, 1 failed$'),
    ('no TAP file, status 0', 'true', 'args: @TAP@', r'0 passed, 1 failed$'),
    ('an empty TAP file, status 0', ': >$TAP', 'args: @TAP@', r'0 passed, 1 failed$'),
    ('a TAP file without cases, status 0', 'echo 1..0 >$TAP', 'args: @TAP@', r'0 passed, 1 failed$'),
    ('a sanitizer report after the TAP file', TAP + '>$TAP; exit 1', 'args: @TAP@',
     r'2 passed, 1 failed$'),
    ('a test that can wait', TAP + '; cd "$(dirname $0)"; [ ! -e wait ] || { touch waits; exec sleep 300; }',
     "protocol: 'tap', is_parallel: false, priority: -1", r'2 passed, 0 failed$'),
]


def build_project(root):
    """One project with a suite per try. Returns its build directory."""
    build = os.path.join(root, 'build')
    project = "project('try')\n"
    for number, (_, body, arguments, _) in enumerate(TRIES, 1):
        script, tap = 't%d' % number, os.path.join(build, '%d.tap' % number)
        with open(os.path.join(root, script), 'w') as file:
            file.write('#!/bin/sh\nTAP=%s\n%s\n' % (tap, body))
        os.chmod(os.path.join(root, script), 0o755)
        project += "test('%s', files('%s')[0], suite: 's%d'%s)\n" % (
            script, script, number,
            ', ' + arguments.replace('@TAP@', "['--tap=%s']" % tap) if arguments else '')
    with open(os.path.join(root, 'meson.build'), 'w') as file:
        file.write(project)
    subprocess.run(['meson', 'setup', build, root], check=True, stdout=subprocess.DEVNULL)
    return build


def interrupt(build, root):
    """What it prints when it is interrupted in the last of TRIES, after the first."""
    with open(os.path.join(root, 'wait'), 'w'):
        pass
    process = subprocess.Popen([os.path.join(HERE, '..', 'run'), build, 's1', 's%d' % len(TRIES)], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while not os.path.exists(os.path.join(root, 'waits')):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    return process.communicate()[0].splitlines(), process.returncode


def run(build, *suites):
    """Returns the lines of the output and the exit status."""
    done = subprocess.run([os.path.join(HERE, '..', 'run'), build, *suites], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout.splitlines(), done.returncode


def main():
    failed = number = 0

    def tell(name, good, lines):
        nonlocal failed, number
        failed += not good
        number += 1
        print('%sok %d - %s' % ('' if good else 'not ', number, name))
        if not good:
            print(''.join('# %s\n' % line for line in lines))

    # Besides, a suite without tests.
    tries = [(n, 's%d' % i, last) for i, (n, _, _, last) in enumerate(TRIES, 1)]
    tries.append(('a suite without tests', 'none', r'0 passed, 1 failed$'))
    with tempfile.TemporaryDirectory(prefix='weir-run-') as root:
        build = build_project(root)
        lines, status = run(build, *[suite for _, suite, _ in tries])
        found = dict(re.findall(r'^(\w+) +[\d.]+ s  (\d+ passed.*)$', '\n'.join(lines), re.M))
        for name, suite, last in tries:
            tell(name, re.match(last, found.get(suite, '')), lines)
        shown = ['   | ' + text for text in ('ok 1', '# seed 7', 'not ok 2', '# why', 'oops')]
        tell('of a failed case, what was said before and after it', '\n'.join(shown + ['----']) in '\n'.join(lines), lines)
        tell('failures are the exit status', status == 1, lines)
        told = lines[lines.index('== skipped'):lines.index('== summary')] if '== skipped' in lines else []
        tell('skipped cases are listed with the reason',
             len(told) == 2 and told[1].endswith(', 1: no root'), lines)
        lines, status = run(build, 's1', 's2')
        tell('without failures the exit status is 0', status == 0 and lines[-1] == '3 passed, 0 failed', lines)
        tell('nothing is skipped', '== skipped' not in lines, lines)
        lines, status = interrupt(build, root)
        tell('what has ended when it is interrupted is told', status == 1 and lines[-1] == '4 passed, 1 failed'
             and lines[lines.index('== summary') - 1].startswith('== interrupted'), lines)
        os.unlink(os.path.join(root, 't1'))
        lines, status = run(build, 's1')
        tell('a missing program', status == 1 and lines[-1] == '0 passed, 1 failed', lines)
    print('1..%d' % number)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
