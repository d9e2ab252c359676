#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""check.py is red when a path costs too much or too little, and never green without a count.

valgrind, the compiler and the build directory are played: valgrind "counts" what the case says.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import check  # noqa: E402  pylint: disable=wrong-import-position

KEPT = 1000.0
VALGRIND = '''#!/bin/sh
for word; do case $word in --callgrind-out-file=*) out=${word#*=};; esac; done
echo "totals: $TOTAL" >"$out"
echo "counted ${COUNTED:-100} packets"
exit ${STATUS:-0}
'''

# name, totals of 100 packets, environment, exit status, what the output contains
TRIES = [
    ('the kept number', '100000', {}, 0, '\nok 1 - engine 64\n'),
    ('2 % more', '102000', {}, 0, '+2.00 %'),
    ('2 % less', '98000', {}, 0, '\nok 1 - engine 64\n'),
    ('4 % more', '104000', {}, 1, 'not ok 1 - engine 64\n# 4.0 % more than kept'),
    ('4 % less', '96000', {}, 1, 'not ok 1 - engine 64\n# 4.0 % less than kept'),
    ('nothing collected', '0', {}, 1, 'not ok 1'),
    ('a bench that fails', '100000', {'STATUS': '1'}, 1, 'not ok 1'),
    ('no number of packets', '100000', {'COUNTED': 'no'}, 1, 'not ok 1'),
    ('another compiler', '104000', {'COMPILER': 'gcc (Debian 13.2.0-1) 13.2.0'}, 0,
     'ok 1 - engine 64 # SKIP the numbers hold for compiler gcc 12, and this is gcc 13'),
    ('clang', '104000', {'COMPILER': 'Debian clang version 12.0.6'}, 0, '# SKIP'),
]


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as file:
        file.write(text)
    os.chmod(path, 0o755)


class Stage:
    """A folder with a played valgrind, compiler and build directory."""

    def __init__(self, root):
        self.root = root
        self.kept = os.path.join(root, 'kept.json')
        self.tools = os.path.join(root, 'bin')
        compiler = os.path.join(root, 'cc')
        write(os.path.join(self.tools, 'valgrind'), VALGRIND)
        write(compiler, '#!/bin/sh\necho "${COMPILER:-gcc (Debian 12.2.0-14) 12.2.0}"\n')
        self.info('dependencies', [{'name': 'libdpdk', 'version': '22.11.5'}])
        self.info('targets', [{'target_sources': [{'language': 'c', 'compiler': [compiler]}]}])
        self.options('none')
        holds = check.describe(root)
        self.write_kept(holds, {'engine 64': KEPT})

    def info(self, what, value):
        write(os.path.join(self.root, 'meson-info', 'intro-%s.json' % what), json.dumps(value))

    def options(self, sanitizers):
        self.info('buildoptions', [{'name': 'b_sanitize', 'value': sanitizers},
                                   {'name': 'c_args', 'value': []}])

    def write_kept(self, holds, numbers):
        write(self.kept, json.dumps({'holds_for': holds, 'instructions': numbers}))

    def run(self, *arguments, total='100000', path=None, **environment):
        path = self.tools + ':' + os.environ['PATH'] if path is None else path
        return subprocess.run(
            [sys.executable, os.path.join(HERE, 'check.py'), '--build', self.root, '--kept',
             self.kept] + list(arguments), check=False, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, env=dict(os.environ, PATH=path, TOTAL=total, **environment))


@contextlib.contextmanager
def stage():
    root = tempfile.mkdtemp(prefix='weir-check-')
    try:
        yield Stage(root)
    finally:
        shutil.rmtree(root)


def try_figure(total, environment, status, text):
    with stage() as s:
        end = s.run('engine 64', total=total, **environment)
    return end, end.returncode == status and text in end.stdout


def sanitizers():
    with stage() as s:
        s.options('address,undefined')
        end = s.run('engine 64', total='104000')
    return end, end.returncode == 0 and \
        '# SKIP the numbers hold for b_sanitize none' in end.stdout


def no_valgrind():
    with stage() as s:
        end = s.run('engine 64', path=os.path.join(s.root, 'empty'))
    return end, end.returncode == 0 and '# SKIP valgrind is not installed' in end.stdout


def a_path_without_a_number():
    with stage() as s:
        end = s.run('hash hit')
    return end, end.returncode == 1 and 'no number is kept' in end.stdout


def renewed_and_then_green():
    with stage() as s:
        end = s.run('--renew', total='104000')
        if end.returncode != 0 or '+4.00 %' not in end.stdout:
            return end, False
        end = s.run(total='104000')
        return end, end.returncode == 0 and end.stdout.count('\nok ') == len(check.PATHS)


def a_number_for_each_path_and_no_other():
    kept = check.read_kept(check.KEPT)
    return None, set(kept['instructions']) == set(check.PATHS)


def main():
    tries = [(name, lambda t=rest: try_figure(*t)) for name, *rest in TRIES]
    tries += [(f.__name__.replace('_', ' '), f) for f in (
        sanitizers, no_valgrind, a_path_without_a_number, renewed_and_then_green,
        a_number_for_each_path_and_no_other)]
    failed = 0
    print('1..%d' % len(tries))
    for number, (name, function) in enumerate(tries, 1):
        end, good = function()
        failed += not good
        print('%sok %d - %s' % ('' if good else 'not ', number, name))
        if not good and end is not None:
            print('# exit status %d' % end.returncode)
            print(''.join('# %s\n' % line for line in end.stdout.splitlines()))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
