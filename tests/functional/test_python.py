#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python package on a rack: every collective with every type, wrong arguments, partial results, waiting, threads, the
end, and the examples. python_rank.py is what each rank does."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

from control import PORT, switch
from installed import BUILD, call, option
from join_hosts import environment
from libweir import environment as sanitized
from libweir import path
from rack import ROOT, SWITCH_ADDRESS, job
from tap import Skip, case, check, main

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(ROOT, 'apps', 'python')


def start(rack, ranks, name, words, python='/usr/bin/python3', **more):
    """A process of each rank, started as by torchrun."""
    around = {'TEST_FOLDER': rack.folder, 'PYTHONPATH': PACKAGE, 'WEIR_LIBRARY': path(rack.build),
              'WEIR_SWITCH': 'http://%s:%d' % (SWITCH_ADDRESS, PORT), 'PYTHONDONTWRITEBYTECODE': '1',
              **{k: v for k, v in (sanitized(rack.build) or {}).items() if k in ('LD_PRELOAD', 'ASAN_OPTIONS')}, **more}
    return [rack.spawn(rank, [python, *words], name, environment(rank, ranks, launcher=2, **around)) for rank in range(ranks)]


def play(rack, ranks, part, **more):
    return start(rack, ranks, part, [os.path.join(HERE, 'python_rank.py'), part], **more)


def finish(*runs):
    """The outputs of all, which have to end well."""
    return [process.wait(60) for processes in runs for process in processes]


@case
def collectives_and_arguments():
    with switch(4, [job(1, 4), job(2, 2)], open_jobs=8) as (rack, _):
        finish(play(rack, 4, 'collectives', WEIR_JOB='job1'))
        finish(play(rack, 2, 'arguments', WEIR_JOB='job2'))


@case
def waiting_and_ending():
    late = {'policy': 'partial', 'timeout_ms': 100, 'dead_after_ms': 60000}
    with switch(3, [job(1, 3, **late), job(2, 3, **late)], open_jobs=16) as (rack, _):
        warned = play(rack, 2, 'warned')
        finish(*(play(rack, 2, part) for part in ('interrupt', 'dropped', 'threads')))
        told = finish(*(play(rack, 2, part) for part in ('closing', 'ending')), warned)
        check(not any('Traceback' in text for text in told), '%s', told)
        finish(play(rack, 3, 'partial', WEIR_JOB='job1', TEST_SECOND='job2'))


@case
def examples():
    wanted = {'allreduce': ['rank 2 of 4: sum 10, mean 2.5'],
              'without_numpy': [r"rank 3: \[1, 3, 9\]; \['rank 0', 'rank 1', 'rank 2', 'rank 3', ''\]; from the root"],
              'nonblocking': ['rank 1: 8 layers, right'],
              # A busy machine can make others late, too.
              'partial': [r'rank 0: without ranks \[([0-2], )*3\]: sum [123], mean 1']}
    with switch(4, open_jobs=8) as (rack, _):
        found = sorted(os.listdir(os.path.join(PACKAGE, 'examples')))
        check(found == sorted(name + '.py' for name in wanted), '%s', found)
        for name, patterns in wanted.items():
            told = ''.join(finish(start(rack, 4, name, [os.path.join(PACKAGE, 'examples', name + '.py')])))
            for pattern in patterns:
                check(re.search('^' + pattern, told, re.M), '%s:\n%s', name, told)


@case
def a_wheel_for_an_empty_environment():
    with tempfile.TemporaryDirectory(prefix='weir-wheel-') as folder:
        for module in ('setuptools', 'wheel', 'venv'):
            if subprocess.run(['/usr/bin/python3', '-c', 'import ' + module], check=False, capture_output=True).returncode:
                raise Skip('no module ' + module)
        if not shutil.which('patchelf'):
            raise Skip('no patchelf')
        if option('b_sanitize') != 'none':
            raise Skip('sanitizers are not packed')
        pips = sorted(glob.glob('/usr/share/python-wheels/pip-*.whl'))
        if not pips:
            raise Skip('no pip')
        wheel = call([os.path.join(ROOT, '.ci', 'wheel'), BUILD, os.path.join(folder, 'made')]).split()[-1]
        check(re.fullmatch(r'weir_collectives-[0-9.]+-py3-none-manylinux_2_\d+_x86_64\.whl', os.path.basename(wheel)), '%s', wheel)
        call(['/usr/bin/python3', '-m', 'venv', '--without-pip', folder + '/env'])  # Debian's pip serves, and is there already
        call([folder + '/env/bin/python', '-m', 'pip', 'install', '--no-index', '--disable-pip-version-check', wheel],
             env=dict(os.environ, PYTHONPATH=pips[-1]))
        said = call([folder + '/env/bin/python', '-c', 'import weir; print(weir.__version__, weir.__file__)'], env={})
        check(folder in said, '%s', said)
        check('py.typed' in os.listdir(os.path.dirname(said.split()[1])), 'not typed')
        # What the wheel links is in it, but for glibc.
        inside = os.path.dirname(said.split()[1])
        linked = re.findall(r'=> (/\S+)', call(['ldd', os.path.join(inside, 'libweir.so.0')]))
        check(len(linked) > 3, '%s', linked)
        for file in linked:
            check(file.startswith(inside) or re.search(r'/lib(c|m|dl|rt|pthread|resolv)\.so\.\d$', file), '%s is not in the wheel', file)
        # Neither the source tree nor WEIR_LIBRARY nor a library of the system.
        with switch(2, open_jobs=8) as (rack, _):
            told = finish(start(rack, 2, 'wheel', [os.path.join(PACKAGE, 'examples', 'without_numpy.py')],
                                folder + '/env/bin/python', PYTHONPATH='', WEIR_LIBRARY=''))
        check('rank 1: [1, 1, 1]; ' in told[1], '%s', told)


if __name__ == '__main__':
    main()
