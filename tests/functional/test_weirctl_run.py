#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl run against a control API that is played: the command's environment, its signals, its exit status, and
that the jobs of its name space are deleted however it ends. And MPI programs on a real switch."""
import contextlib
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from ctl import WEIRCTL, ctl, good, says
from fake_api import FakeApi
from tap import Skip, case, check, main, wait_for
import mpi
from rack import command

SHOWN = ('WEIR_SWITCH', 'WEIR_NAMESPACE', 'WEIR_TOKEN_FILE', 'LD_PRELOAD', 'OMPI_MCA_coll_weir_enable',
         'OMPI_MCA_coll_weir_switch', 'OMPI_MCA_coll_weir_namespace', 'OMPI_MCA_coll_weir_settings')


def played():
    api = FakeApi()
    api.routes['/v1/jobs'] = {'deleted': []}
    return api


def prefixes(api):
    """What was deleted, in turn."""
    return [re.fullmatch(r'/v1/jobs\?prefix=(.*)', path).group(1) for method, path, *_ in api.asked
            if method == 'DELETE']


def environment(run):
    found = dict(line.split('=', 1) for line in good(run).splitlines() if '=' in line)
    return {name: found[name] for name in SHOWN if name in found}


@case
def the_command_gets_the_switch_and_a_name_space():
    with played() as api:
        seen = environment(ctl(api.address, 'run', '--', 'env'))
        space = seen.pop('WEIR_NAMESPACE')
        check(seen == {'WEIR_SWITCH': api.address, 'OMPI_MCA_coll_weir_enable': '1', 'OMPI_MCA_coll_weir_switch': api.address,
                       'OMPI_MCA_coll_weir_namespace': space}, '%s', seen)
        check(prefixes(api) == [space + '.'] * 2, '%s', api.asked)
        # The words, the name space around it, and the name before its random end: a run inside a run keeps that of the first.
        for words, around, name in (([], None, 'run'), (['--space', 'a' * 11], 'other', 'a' * 11), ([], 's4711', 's4711'),
                                    ([], 's4711.00000f', 's4711'), ([], space, space), ([], space + '.00000f', space)):
            more = {'WEIR_NAMESPACE': around} if around else {}
            inner = environment(ctl(api.address, 'run', *words, 'env', **more))['WEIR_NAMESPACE']
            check(re.fullmatch(re.escape(name) + r'\.[0-9a-f]{6}', inner) and inner not in (space, around), '%s: %s', around, inner)
        seen = environment(ctl(None, 'run', '-s', api.address, 'env', WEIR_SETTINGS='{"window": 8}'))
        check(seen['WEIR_SWITCH'] == api.address and seen['OMPI_MCA_coll_weir_settings'] == '{"window": 8}', '%s', seen)
        for words, more, token in (([], {}, 'mine'), ([], {'WEIR_SWITCH': 'unix:/other'}, None),
                                   (['--token-file', __file__], {}, None)):
            run = ctl(None, 'run', '-s', api.address, *words, 'printenv', 'WEIR_TOKEN', WEIR_TOKEN='mine', **more)
            check(run.out.strip() == (token or ''), '%s: %s', words, run)
        asked = len(api.asked)
        for wrong in ('a' * 12, 'a' * 12 + '.a', 'a b'):
            says(ctl(api.address, 'run', 'env', WEIR_NAMESPACE=wrong), 2, 'WEIR_NAMESPACE %s: must be a name' % wrong)
        for wrong in ('a' * 12, 'a/b', '.a'):
            says(ctl(api.address, 'run', '--space', wrong, 'env'), 2, r'--space %s: must be a name' % re.escape(wrong))
        says(ctl(api.address, 'run', '--'), 2, 'run: COMMAND is missing')
        check(len(api.asked) == asked, 'a wrong command line asks the switch: %s', api.asked[asked:])


@contextlib.contextmanager
def libraries():
    """A folder where ld.so finds libraries by the names of those for MPI."""
    with open('/proc/self/maps') as file:
        some = re.search(r'/\S*/libm\.so\S*', file.read()).group()
    with tempfile.TemporaryDirectory(prefix='weir-run-') as folder:
        for name in ('mpich', 'openmpi'):
            os.symlink(some, os.path.join(folder, 'libweir-mpi-%s.so' % name))
        yield folder


@case
def a_library_is_preloaded_where_asked():
    with played() as api, libraries() as folder:
        def preloaded(*words, **env):
            run = ctl(api.address, 'run', *words, 'env', LD_LIBRARY_PATH=folder, **env)
            check(run.status == 0, '%s', run)
            return dict(line.split('=', 1) for line in run.out.splitlines() if '=' in line)

        seen = preloaded('--preload', 'mpich')
        check(seen['LD_PRELOAD'] == 'libweir-mpi-mpich.so' and 'OMPI_MCA_coll_weir_enable' not in seen, '%s', seen)
        path = os.path.join(folder, 'libweir-mpi-mpich.so')
        check(preloaded('--preload', path)['LD_PRELOAD'] == path, 'a path')
        seen = preloaded('--preload', 'openmpi', LD_PRELOAD='/y.so', OMPI_MCA_mca_base_env_list='A;B=1')
        check(seen['LD_PRELOAD'] == 'libweir-mpi-openmpi.so:/y.so', 'beside another')
        passed = seen['OMPI_MCA_mca_base_env_list'].split(';')
        check(passed[0] == 'LD_PRELOAD' and set(passed[1:-2]) == {'WEIR_SWITCH', 'WEIR_NAMESPACE'}, '%s', passed)
        check(passed[-2:] == ['A', 'B=1'], '%s', passed)
        asked = len(api.asked)
        for library, why in (('mpich', r'libweir-mpi-mpich\.so: cannot open .*: install the package weir-mpich'),
                             (os.path.join(folder, 'none.so'), r'none\.so: cannot open'), (__file__, 'invalid ELF header')):
            run = ctl(api.address, 'run', '--preload', library, 'echo', 'it runs', LD_LIBRARY_PATH='/nowhere')
            says(run, 126, 'run: --preload .*' + why)
            check(run.out == '' and run.err.count('\n') == 1, '%s', run)
        check(len(api.asked) == asked, 'the switch is asked: %s', api.asked[asked:])


@case
def it_ends_as_the_command_ends():
    with played() as api, tempfile.TemporaryDirectory(prefix='weir-run-') as folder:
        for status in (0, 3, 255):
            run = ctl(api.address, 'run', '--', 'sh', '-c', 'exit %d' % status)
            check((run.status, run.out, run.err) == (status, '', ''), '%s', run)
        for number in (signal.SIGTERM, signal.SIGKILL):
            run = ctl(api.address, 'run', '--', 'sh', '-c', 'kill -%d $$' % number)
            check((run.status, run.err) == (-number, ''), 'signal %d: %s', number, run)
        says(ctl(api.address, 'run', '--', 'no-such-program'), 127, 'run: no-such-program: No such file')
        says(ctl(api.address, 'run', '--', folder), 126, 'Permission denied')
        # What ended without a command's help has been tidied up, too.
        check(len(prefixes(api)) == 2 * 7 and len(set(prefixes(api))) == 7, '%s', prefixes(api))


@case
def the_command_has_its_input_and_no_more_files():
    with played() as api:
        env = dict(os.environ, WEIR_SWITCH=api.address)
        run = subprocess.run([WEIRCTL, 'run', '--', 'sh', '-c', 'cat; exec ls /proc/self/fd'], env=env, text=True,
                             input='typed\n', stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=800)
        # The last one is the folder that ls reads.
        check(run.returncode == 0 and run.stdout.split() == ['typed', '0', '1', '2', '3'], '%s', run)


class Run:
    """A command that runs until it is told: it prints the signals that it gets, one a line, and ends on `last`."""

    SCRIPT = r'''
import os, signal, sys
if 'away' in sys.argv:
    os.setsid()
taken = [getattr(signal, 'SIG' + name) for name in 'TERM INT HUP QUIT USR1 USR2'.split()]
signal.pthread_sigmask(signal.SIG_BLOCK, taken)
print('ready', flush=True)
while (got := signal.sigwait(taken)) != int(sys.argv[1]):
    print(got.name, flush=True)
print(got.name, flush=True)
signal.signal(got, signal.SIG_DFL)
os.kill(os.getpid(), got)
signal.pthread_sigmask(signal.SIG_UNBLOCK, taken)
'''

    def __init__(self, api, last):
        self.popen = subprocess.Popen([WEIRCTL, 'run', '--', sys.executable, '-c', self.SCRIPT, str(int(last))],
                                      env=dict(os.environ, WEIR_SWITCH=api.address), text=True,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.line('ready')

    def line(self, want):
        ready = select.select([self.popen.stdout], [], [], 60)[0]
        got = self.popen.stdout.readline().strip() if ready else None
        check(got == want, '%s, not %s', got, want)

    def end(self):
        """The exit status and what came after the lines that were asked for."""
        out, err = self.popen.communicate(timeout=800)
        return self.popen.returncode, out + err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Of a group without processes nobody is told.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.communicate(timeout=800)


@case
def signals_reach_the_command_and_the_jobs_go():
    # What weirctl is sent and passes on; the command ends at the last one, and ignores what comes before it.
    for sent in ((signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM), (signal.SIGINT,), (signal.SIGINT, signal.SIGINT, signal.SIGHUP)):
        with played() as api, Run(api, sent[-1]) as run:
            for number in sent:
                check(run.popen.poll() is None and len(prefixes(api)) == 1, 'deleted while the command runs: %s', prefixes(api))
                run.popen.send_signal(number)
                run.line(number.name)
            check(run.end() == (-sent[-1], '') and len(prefixes(api)) == 2, '%s: %s', sent, prefixes(api))
    with played() as api, Run(api, signal.SIGTERM) as run:  # a killed weirctl leaves the command alone
        run.popen.send_signal(signal.SIGKILL)
        check(run.popen.wait(60) == -signal.SIGKILL, 'status')
        os.killpg(run.popen.pid, signal.SIGTERM)
        run.line('SIGTERM')
        check(len(prefixes(api)) == 1, '%s', prefixes(api))


def in_terminal(api, steps, *more):
    """Run the command in a terminal: type keys, or send a signal, and wait for what comes of it. Returns how it ended
    and which signals the command got."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ['WEIR_SWITCH'] = api.address
        os.execv(WEIRCTL, [WEIRCTL, 'run', '--', sys.executable, '-c', Run.SCRIPT, str(int(signal.SIGQUIT)), *more])
    said = b''
    for step, want in [(None, b'ready'), *steps]:
        if isinstance(step, bytes):
            os.write(fd, step)
        elif step:
            os.kill(pid, step)
        while want not in said:
            check(select.select([fd], [], [], 60)[0], '%s', said)
            said += os.read(fd, 4096)
    with contextlib.suppress(OSError):  # nobody has the terminal any more
        while True:
            said += os.read(fd, 4096)
    status = os.waitpid(pid, 0)[1]
    os.close(fd)
    return os.waitstatus_to_exitcode(status), re.findall(r'SIG[A-Z0-9]+', said.decode())


@case
def keys_of_a_terminal_reach_the_command_once():
    """The terminal sends them to weirctl and the command; weirctl sends none to a command that has left the terminal."""
    with played() as api:
        found = in_terminal(api, [(b'\x03', b'SIGINT'), (b'\x1c', b'SIGQUIT')])
        check(found == (-signal.SIGQUIT, ['SIGINT', 'SIGQUIT']), '%s', found)
        # Signals of lower numbers come first: SIGINT would have come before SIGUSR1.
        found = in_terminal(api, [(b'\x03', b'^C'), (signal.SIGUSR1, b'SIGUSR1'), (signal.SIGQUIT, b'SIGQUIT')], 'away')
        check(found == (-signal.SIGQUIT, ['SIGUSR1', 'SIGQUIT']), '%s', found)
        check(len(prefixes(api)) == 4, '%s', prefixes(api))


@case
def a_terminal_that_hangs_up_tells_the_command():
    with played() as api:
        pid, fd = pty.fork()
        if pid == 0:
            os.environ['WEIR_SWITCH'] = api.address
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
            os.execv(WEIRCTL, [WEIRCTL, 'run', '--', 'sh', '-c', 'echo ready; exec sleep 100'])
        check(os.read(fd, 4096) == b'ready\r\n', 'not ready')
        os.close(fd)
        found = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        check(found == -signal.SIGHUP and len(prefixes(api)) == 2, '%s: %s', found, prefixes(api))


@case
def without_a_switch_the_command_runs_on_mpi():
    with libraries() as folder:
        for words in ((), ('--preload', 'mpich')):
            run = ctl('unix:%s/none' % folder, 'run', *words, '--', 'sh', '-c',
                      'echo $OMPI_MCA_coll_weir_enable $WEIR_NAMESPACE $LD_PRELOAD; exit 4', LD_LIBRARY_PATH=folder)
            check(run.status == 4 and run.out == '0\n', '%s', run)
            check(re.search('is the switch running', run.err) and run.err.endswith('weirctl: run: sh runs without Weir\n'),
                  '%s', run)
        says(ctl('nonsense://x', 'run', '--', 'true'), 2, 'nonsense')
    with FakeApi() as api:
        api.routes['/v1/jobs'] = (403, {'error': {'status': 403, 'code': 'forbidden', 'key': 'api.open_jobs',
                                                  'message': 'no jobs without a token'}})
        run = says(ctl(api.address, 'run', '--', 'sh', '-c', 'echo $OMPI_MCA_coll_weir_enable'), 0,
                   'api.open_jobs: no jobs without a token', 'sh runs without Weir')
        check(run.out == '0\n' and len(api.asked) == 1, '%s %s', run, api.asked)


@case
def a_switch_that_goes_meanwhile_changes_no_status():
    with played() as api, Run(api, signal.SIGTERM) as run:
        os.unlink(api.address[len('unix:'):])
        run.popen.send_signal(signal.SIGTERM)
        run.line('SIGTERM')
        status, rest = run.end()
        check(status == -signal.SIGTERM and re.search(r'run: jobs run\.[0-9a-f]{6}\.\*, if any are left', rest), '%s', rest)


PROGRAM = r"""
#include <mpi.h>
#include <unistd.h>
static int one[16384], sum[16384];
int main(int argc, char **argv)
{
	MPI_Init(&argc, &argv);
	do {
		one[0] = access(argv[1], F_OK) == 0;
		MPI_Allreduce(one, sum, 16384, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		usleep(10000);
	} while (sum[0] == 0);
	MPI_Finalize();
	return 0;
}
"""


class Program:
    """An MPI program under weirctl run on two hosts, which runs on the switch."""

    def __init__(self, rack, name, options=('--space', 'test')):
        path = os.path.join(rack.folder, name)
        self.rack, self.stop = rack, path + '.stop'
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.stop)  # of a program before it
        self.library = 'mpich' if name == 'mpich' else 'openmpi'
        command(['mpicc.' + self.library, '-x', 'c', '-o', path, '-'], PROGRAM)
        env = {'WEIR_SWITCH': mpi.SWITCH}
        for setting, value in (('report', path), ('contact_ms', '60000')):  # the machine may be busy
            env['OMPI_MCA_coll_weir_' + setting] = env['WEIR_MPI_' + setting.upper()] = value
        if name == 'component':
            env.update(mpi.plug_in(rack, 'openmpi', 'component', {}, '')[0])
        else:
            options += ('--preload', os.path.join(rack.build, 'apps', 'mpi', 'pmpi', 'libweir-mpi-%s.so' % self.library))
            check(os.path.exists(options[-1]), '%s is not built', options[-1])
        self.run = mpi.start(rack, [path, self.stop], hosts=2, mpi=self.library, env=env, before=[WEIRCTL, 'run', *options, '--'])
        self.run.prefix = path
        wait_for(self.jobs, 'no job: %s', lambda: self.run.output)

    def jobs(self):
        return [name for name in self.rack.jobs_now() if re.match(r'test\.[0-9a-f]{6}\.[0-9a-f]{12}$', name)]

    def end(self):
        status = self.run.process.end(60)
        check(not self.rack.jobs_now(), 'left: %s', self.rack.jobs_now())
        return status


def complete(program):
    """To its end."""
    with open(program.stop, 'w'):
        check(program.end() == 0, '%s', program.run.output)
    reports = program.run.reports
    check(len(reports) == 2 and all(r['offloaded']['allreduce'] > 0 for r in reports.values()), '%s\n%s', reports,
          program.run.output)


@case
def mpi_programs_run_on_the_switch():
    names = ['mpich'] * bool(shutil.which('mpicc.mpich')) + ['openmpi', 'component'] * bool(shutil.which('mpicc.openmpi'))
    if not names:
        raise Skip('no MPI is installed (.ci/install packages.mpi)')
    with mpi.running(2) as rack:
        for name in names:
            complete(Program(rack, name))
        program = Program(rack, names[-1])
        os.kill(program.run.mpirun_pid(), signal.SIGTERM)  # weirctl's
        program.end()


TORCHRUN = '''#!/bin/sh
for rank in 0 1; do
	RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank "$@" &
	ranks="$ranks $!"
done
for rank in $ranks; do wait $rank || exit; done
'''


@case
def processes_of_torchrun_reach_the_switch():
    """By a stand-in of this name, as no package of ours has torchrun: its environment is enough for weir-perf."""
    with mpi.running(2) as rack:
        with open(os.path.join(rack.folder, 'torchrun'), 'w') as file:
            file.write(TORCHRUN)
        os.chmod(file.name, 0o755)
        output = rack.spawn(0, [WEIRCTL, 'run', '--', 'sh', '-c', 'WEIR_JOB=$WEIR_NAMESPACE.a exec "$@"', 'sh', file.name,
                                rack.program(('perf', 'weir-perf')), '--opens', '3'], env={
                                    'PATH': os.environ['PATH'], 'WEIR_SWITCH': mpi.SWITCH}).wait(60)
        check('# 3 jobs opened' in output and not rack.jobs_now(), '%s', output)


if __name__ == '__main__':
    sys.exit(main())
