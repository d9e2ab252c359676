#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""This version of Weir beside the one before it (docs/versions.md): hosts of each join a switch of the other, programs
linked with the older library run on this one, and each switch reads the other's state and this one the older one's
configurations. The version before is built from the repository's history, once, in BUILD/previous."""
import contextlib
import fcntl
import functools
import glob
import json
import os
import shutil
import subprocess

from installed import option
from join_hosts import environment
from mpi import PORT, MpiRack
from tap import Skip, case, check, main
from rack import SWITCH_ADDRESS, Api

# The tag of the last release, once there is one (RELEASING.md). Before the first one: no host knew the list of settings in the answer to a join.
PREVIOUS = '4572b010b29489940b54b0782087c7a40ea1ac8b'
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
NEW = os.environ['WEIR_BUILD']
URL = 'http://%s:%d' % (SWITCH_ADDRESS, PORT)
TARGETS = 'weir-switch:executable', 'weir-perf:executable', 'weirctl:executable', 'weir:shared_library', 'installed_weir_h'
SECONDS = 300


def call(*argv, status=0, **more):
    end = subprocess.run(argv, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1200, check=False, **more)
    check(end.returncode == status, '%s: exit status %d\n%s', ' '.join(argv), end.returncode, end.stdout[-3000:])
    return end.stdout


@functools.cache
def old():
    """The build folder of the version before; its source is beside it."""
    if subprocess.run(['git', '-C', ROOT, 'cat-file', '-e', PREVIOUS + '^{commit}'], check=False, capture_output=True).returncode:
        raise Skip('the version before is not in the history of this source')
    if subprocess.run(['pkg-config', '--atleast-version=23', 'libdpdk'], check=False).returncode == 0:
        raise Skip('the version before needs DPDK 22.11')
    folder = os.path.join(NEW, 'previous', PREVIOUS)
    source, build = (os.path.join(folder, name) for name in ('source', 'build'))
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + '.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(build, 'build.ninja')):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(source)
            call('sh', '-c', 'git -C "$0" archive "$1" | tar -x -C "$2"', ROOT, PREVIOUS, source)
            # It has to run, not to be fast.
            call('meson', 'setup', build, source, '-Dtests=false', '-Dwerror=false', '-Doptimization=0', '-Ddebug=false')
        call('meson', 'compile', '-C', build, '-j', '2', *TARGETS)
    return build


def rack_of(build, hosts=2):
    return MpiRack(build=build, hosts=hosts)


def joins(rack, builds, name):
    """A weir-perf of each build, a host each, in a job made over the API; each checks every element."""
    runs = []
    for rank, build in enumerate(builds):
        report = os.path.join(rack.folder, '%s-%d.json' % (name, rank))
        run = rack.spawn(rank, [rack.program(('perf', 'weir-perf'), build), '-b', '4', '-e', '1M', '-f', '16', '-n', '3', '-o', 'sum',
                                '-d', 'float', '--timeout', '60000', '--json=' + report], 'perf',
                         environment(rank=rank, size=len(builds), WEIR_SWITCH=URL, WEIR_JOB=name))
        run.json = report
        runs.append(run)
    for run in runs:
        run.wait(SECONDS)
        with open(run.json) as file:
            rows = json.load(file)['rows']
        check(len(rows) >= 4 and all(row['wrong'] == 0 for row in rows), '%s', rows)


def weirctl(rack, build, *words, status=0):
    return call(rack.program(('ctl', 'weirctl'), build), *words, status=status,
                env=dict(os.environ, WEIR_SWITCH='unix:' + rack.api_path))


def both(rack, builds):
    """A job that each version's weirctl makes, shows and deletes."""
    for build in NEW, old():
        weirctl(rack, build, 'job', 'create', 'made', '--size', str(len(builds)), '--window', '32')
        for words in (['status'], ['jobs'], ['job', 'made'], ['members', 'made'], ['ports'], ['counters']):
            weirctl(rack, build, *words)
        joins(rack, builds, 'made')
        weirctl(rack, build, 'job', 'delete', 'made', '--wait')


@case
def older_hosts_and_a_newer_switch():
    old()
    with rack_of(NEW) as rack:
        rack.start_switch()
        both(rack, [old(), old()])
        rack.stop_switch()


@case
def newer_hosts_and_an_older_switch():
    with rack_of(old()) as rack:
        rack.start_switch()
        both(rack, [NEW, NEW])
        rack.stop_switch()


@case
def hosts_of_both_in_one_job():
    for build in old(), NEW:
        with rack_of(build, hosts=3) as rack:
            rack.start_switch()
            weirctl(rack, build, 'job', 'create', 'mixed', '--size', '3')
            joins(rack, [NEW, old(), NEW], 'mixed')
            rack.stop_switch()


@case
def the_older_switchs_state_and_configurations():
    with rack_of(old()) as rack:
        rack.changes['state'] = {'file': os.path.join(rack.folder, 'state.json')}
        rack.start_switch()
        weirctl(rack, old(), 'job', 'create', 'kept', '--size', '2', '--policy', 'partial', '--timeout', '30s')
        joins(rack, [old(), old()], 'kept')
        before = json.loads(weirctl(rack, old(), 'job', 'kept', '--json'))
        rack.stop_switch()
        rack.build = NEW
        rack.start_switch()
        after = json.loads(weirctl(rack, NEW, 'job', 'kept', '--json'))
        for key in 'id', 'size', 'window', 'timeout_ms', 'policy':
            check(before[key] == after[key], '%s: %s, not %s', key, after.get(key), before.get(key))
        joins(rack, [old(), NEW], 'kept')
        rack.stop_switch()
    paths = sorted(glob.glob(os.path.join(old(), '..', 'source', 'configs', '*.json')))
    check(len(paths) >= 6, '%s', paths)
    for path in paths:
        call(os.path.join(NEW, 'apps', 'switch', 'weir-switch'), '--check', '-c', path)


@case
def the_newer_switchs_state_and_settings():
    with rack_of(NEW) as rack:
        path = os.path.join(rack.folder, 'state.json')
        rack.changes['state'] = {'file': path}
        rack.start_switch()
        weirctl(rack, NEW, 'job', 'create', 'kept', '--size', '2')
        rack.stop_switch()
        rack.build = old()
        rack.start_switch()
        joins(rack, [NEW, NEW], 'kept')
        with contextlib.closing(Api(rack.api_path)) as api:
            status, answer = api._ask('POST', '/v1/jobs', {'name': 'later', 'size': 2, 'of_a_later_version': 1})
        check(status == 400 and answer['error']['key'] == 'of_a_later_version', '%s', answer)
        rack.stop_switch()
        with open(path) as file:
            state = json.load(file)
        for change in {'weir_state': 77}, {'of_a_later_version': 1}:
            text = json.dumps({**state, **change})
            with open(path, 'w') as file:
                file.write(text)
            switch = rack.start_switch(wait=False)
            check(switch.end(SECONDS) == 2 and next(iter(change)) in switch.output, '%s', switch.output)
            with open(path) as file:
                check(file.read() == text, 'the file has changed')


@case
def a_program_that_was_compiled_with_the_older_header():
    """With the older libweir.so, too; then it is loaded with this one."""
    if option('b_sanitize') != 'none':
        raise Skip("a program cannot load a sanitizer's library")
    library = os.path.join('apps', 'libweir')
    old()
    with rack_of(NEW) as rack:
        program = os.path.join(rack.folder, 'allreduce')
        call('cc', '-o', program, os.path.join(old(), '..', 'source', 'docs', 'examples', 'libweir', 'allreduce.c'),
             '-I', os.path.join(old(), library, 'include'), '-L', os.path.join(old(), library), '-lweir')
        rack.start_switch()
        weirctl(rack, NEW, 'job', 'create', 'own', '--size', '2')
        for build in NEW, old():
            runs = [rack.spawn(rank, [program], 'allreduce', environment(
                rank=rank, size=2, WEIR_SWITCH=URL, WEIR_JOB='own', LD_LIBRARY_PATH=os.path.join(build, library)))
                for rank in range(2)]
            for run in runs:
                run.wait(SECONDS)
        rack.stop_switch()


if __name__ == '__main__':
    main()
