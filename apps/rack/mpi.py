# SPDX-License-Identifier: BSD-3-Clause
"""mpirun over the hosts of a rack or a tree: each rank on a host of its own, or several on each.

    with running(hosts=4) as rack:
        run = mpirun(rack, ['./a.out', '100'], weir='component')
        print(run.output, run.offloaded)

A host has namespaces of its own for its network and its name. The agent that starts mpirun's daemons passes no
environment on, like ssh. All processes of an mpirun share a PID namespace and end with it. MPI's own messages take a network beside the
switch (eth1, on a bridge), and so do not take the switch's time; on a plain Rack, which has only eth0, they take that.
MPICH's take shared memory: UCX's TCP often hangs in MPI_Finalize.
"""
import contextlib
import functools
import json
import os
import re
import shlex
import subprocess

from rack import BUSY_SECONDS, NETNS, SWITCH_ADDRESS, Api, Rack, RackError, command, tail

PORT = 8080
SWITCH = 'http://%s:%d' % (SWITCH_ADDRESS, PORT)
MTU = 9000
SECONDS = 120

# A name of its own for a host: AT_HOST NAME WORD...
AT_HOST = ['unshare', '--uts', 'sh', '-c', 'hostname "$1"; shift; exec "$@"', 'sh']
# All processes of an mpirun, on all hosts, end with their process 1, and that with mpirun. Its shared memory is its own:
# Open MPI names a segment by the host's name and mpirun's pid, and both are the same in another mpirun beside it.
TOGETHER = ['unshare', '--pid', '--ipc', '--fork', '--kill-child=KILL', '--mount-proc', 'sh', '-c',
            'mount -t tmpfs tmpfs /dev/shm && "$@"; exit $?', 'sh']
# AGENT [OPTION...] ADDRESS COMMAND...
AGENT = '''#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
case "$1" in
%s
esac
shift
exec setsid --wait ip netns exec "$place" %s "weir-h$host" env -i PATH="$PATH" HOME="$HOME" $own setpriv --pdeathsig KILL sh -c "$*"
'''
# Ranks share CPUs: one that waits must let the others run. Open MPI has a parameter for it, and MPICH has not.
YIELD = '''#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
unsigned int ucp_worker_progress(void *worker)
{
	static unsigned int (*next)(void *);
	unsigned int done;

	if (!next)
		next = (unsigned int (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
	done = next(worker);
	if (done == 0)
		sched_yield();
	return done;
}
'''


class MpiRack(Rack):
    """A rack for MPI programs: any host may create temporary jobs, and hosts have a second network, 10.78.0.(i+1)/24 on
    eth1."""

    def __init__(self, build=None, hosts=4, changes=None, open_jobs=256, **more):
        super().__init__(build, hosts=hosts, changes=changes, **more)
        self.api_path = os.path.join(self.folder, 'run', 'api.sock')
        self.changes['api'] = {'listen': ['unix:' + self.api_path, 'tcp:SWITCH:%d' % PORT], 'open_jobs': open_jobs,
                               **self.changes.get('api', {})}

    def _lay_cables(self):
        super()._lay_cables()
        self._ip_in('sw', 'link add mpi type bridge', 'link set mpi up', *[
            'link add m%d mtu %d type veth peer name eth1 netns %s mtu %d' % (p, MTU, self.namespace(p), MTU)
            for p in range(self.hosts)])
        self._ip_in('sw', *['link set m%d master mpi up' % p for p in range(self.hosts)])
        for host in range(self.hosts):
            self._ip_in(host, 'address add 10.78.0.%d/24 dev eth1' % (host + 1), 'link set eth1 up')

    def jobs_now(self):
        """The switch's jobs, by name."""
        return {found['name']: found for found in Api(self.api_path, BUSY_SECONDS).ask('GET', '/v1/jobs')['jobs']}


@contextlib.contextmanager
def running(hosts=4, **more):
    """An MpiRack whose switch runs; in the end it has to stop in an orderly way."""
    with MpiRack(hosts=hosts, **more) as rack:
        rack.start_switch()
        yield rack
        rack.stop_switch()


class Run:
    """An mpirun. process: in the rack; reports: by rank, what Weir's plug-in says of it, once it has ended."""

    def __init__(self, rack, process, prefix):
        self.rack, self.process, self.prefix = rack, process, prefix

    @property
    def output(self):
        return self.process.output

    @property
    def reports(self):
        found, rank = {}, 0
        while os.path.exists('%s.%d.json' % (self.prefix, rank)):
            with open('%s.%d.json' % (self.prefix, rank)) as file:
                found[rank] = json.load(file)
            rank += 1
        return found

    @property
    def offloaded(self):
        """{collective: calls that ran on Weir} of rank 0."""
        return self.reports.get(0, {}).get('offloaded', {})

    def pids(self, variable='OMPI_COMM_WORLD_RANK'):
        """{value of an environment variable: pid} of the processes on the rack's hosts that have it: the ranks (of
        MPICH: PMI_RANK)."""
        places = {os.stat(os.path.join(NETNS, self.rack.namespace(host))).st_ino for host in range(self.rack.hosts)}
        found = {}
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                if os.stat('/proc/%s/ns/net' % pid).st_ino not in places:
                    continue
                with open('/proc/%s/environ' % pid, 'rb') as file:
                    words = file.read().decode(errors='replace').split('\0')
            except OSError:
                continue
            found.update((word.partition('=')[2], int(pid)) for word in words if word.startswith(variable + '='))
        return found

    def mpirun_pid(self):
        """Of mpirun itself, the child of process 1 of the PID namespace."""
        pid = self.process.pid
        for _ in range(2):
            with open('/proc/%d/task/%d/children' % (pid, pid)) as file:
                pid = int(file.read().split()[0])
        return pid

    def wait(self, seconds=SECONDS, status=0):
        """Wait for the end and for this exit status; None: any. Returns the output."""
        found = self.process.end(seconds)
        if status is not None and found != status:
            raise RackError('%s: exit status %d, not %d: %s\n%s' % (
                self.process.name, found, status, ' '.join(self.process.argv), tail(self.process.log, 60)))
        return self.output


def address(rack, host):
    """Of a host, for MPI's own messages."""
    return '10.78.0.%d' % (host + 1) if isinstance(rack, MpiRack) else rack.address(host)


def switch_url(rack, host=0):
    return 'http://%s:%d' % (rack.at(host)[0].switch_address, PORT)


def agent(rack):
    path = os.path.join(rack.folder, 'agent')
    if not os.path.exists(path):
        with open(path, 'w') as file:
            # Where hosts have different switches, their environments say so.
            file.write(AGENT % ('\n'.join("%s) host=%d place=%s own=%s;;" % (
                address(rack, host), host, rack.namespace(host), '' if isinstance(rack, Rack) else 'WEIR_SWITCH=' + switch_url(rack, host))
                for host in range(rack.hosts)), shlex.join(AT_HOST)))
        os.chmod(path, 0o755)
    return path


def yielding(rack):
    """A library that lets ranks of MPICH yield while they wait."""
    path = os.path.join(rack.folder, 'yield.so')
    if not os.path.exists(path):
        command(['cc', '-shared', '-fPIC', '-O2', '-x', 'c', '-o', path, '-'], YIELD)
    return path


@functools.cache
def open_mpi():
    """The first number of Open MPI's version."""
    said = subprocess.run(['ompi_info', '--version'], check=True, text=True, timeout=60, stdout=subprocess.PIPE).stdout
    return int(re.search(r'Open MPI v(\d+)', said).group(1))


def launcher(rack, mpi, hosts, per_host, folder, mca, ranks):
    """mpirun's words. hosts: in the order of ranks; mca: parameters of Open MPI; ranks: environment of all ranks."""
    addresses = [address(rack, host) for host in hosts]
    device, count = 'eth1' if isinstance(rack, MpiRack) else 'eth0', str(len(hosts) * per_host)
    if mpi == 'mpich':
        words = ['mpirun.mpich', '-launcher', 'ssh', '-launcher-exec', agent(rack), '-iface', device, '-ppn', str(per_host),
                 '-hosts', ','.join('%s:%d' % (address, per_host) for address in addresses), '-n', count]
        if 'LD_PRELOAD' in ranks:  # else they have mpirun's
            ranks = {**ranks, 'LD_PRELOAD': ranks['LD_PRELOAD'] + ':' + yielding(rack)}
        for key, value in {'UCX_TLS': 'sysv,self', **ranks}.items():
            words += ['-genv', key, value]
        return words
    words = ['mpirun.openmpi', '--allow-run-as-root', '--map-by', 'node:OVERSUBSCRIBE', '--bind-to', 'none', '-np', count,
             '--host', ','.join('%s:%d' % (address, per_host) for address in addresses)]
    # Of the daemons: PRRTE's in Open MPI 5, and before ORTE's, which have no option of their own.
    prrte = open_mpi() >= 5
    daemons = {'plm_ssh_agent': agent(rack), 'plm_ssh_no_tree_spawn': 1, 'prte_if_include': device, 'prte_tmpdir_base': folder,
               'prte_leave_session_attached': 1} if prrte else {
               'plm_rsh_agent': agent(rack), 'plm_rsh_no_tree_spawn': 1, 'oob_tcp_if_include': device, 'orte_tmpdir_base': folder,
               'orte_leave_session_attached': 1}
    for key, value in daemons.items():
        words += ['--prtemca' if prrte else '--mca', key, str(value)]
    for key, value in {'pml': 'ob1', 'btl': 'tcp,self,' + ('sm' if prrte else 'vader'), 'btl_tcp_if_include': device,
                       'mpi_yield_when_idle': 1, **mca}.items():
        words += ['--mca', key, str(value)]
    for key, value in ranks.items():
        words += ['-x', '%s=%s' % (key, value)]
    return words


def plug_in(rack, mpi, weir, settings, report):
    """What a user sets for Weir: (mpirun's environment, parameters of Open MPI, environment of the ranks)."""
    folder = os.path.join(rack.build, 'apps', 'mpi')
    # The machine may be busy.
    settings = {'report': report, 'contact_ms': 60000, **settings}
    if weir == 'component':
        system = subprocess.run(['ompi_info', '--parsable', '--path', 'pkglibdir'], check=True, text=True, timeout=60,
                                stdout=subprocess.PIPE).stdout.strip().rpartition(':')[2]
        path = os.path.join(folder, 'openmpi')
        library = os.path.join(path, 'mca_coll_weir.so')
        # Open MPI 5 hands the path to PMIx, too, which then complains of components that are not its own.
        made = ({'OMPI_MCA_mca_base_component_path': '%s:%s' % (path, system), 'PMIX_MCA_mca_base_component_show_load_errors': 'none'},
                {'coll_weir_enable': 1, **{'coll_weir_' + key: value for key, value in settings.items()}}, {})
    else:
        library = os.path.join(folder, 'pmpi', 'libweir-mpi-%s.so' % mpi)
        made = ({}, {}, {'LD_PRELOAD': library, 'WEIR_SWITCH': switch_url(rack),
                         **{'WEIR_MPI_' + key.upper(): str(value) for key, value in settings.items()}})
    if not os.path.exists(library):
        raise RackError('%s is not built' % library)
    made[0]['WEIR_SWITCH'] = switch_url(rack)
    return made


def start(rack, words, hosts=4, per_host=1, mpi='openmpi', weir=None, settings=None, mca=None, env=None, ranks=None,
          before=(), name=None):
    """Start mpirun on host 0. Returns a Run.

    words: the program and its arguments. hosts: how many, or which, in the order of ranks, 0 among them. mpi: openmpi or mpich. weir: None, component or preload; with either,
    WEIR_SWITCH is the rack's switch. settings: of the plug-in, {'min_bytes': 0}. mca: parameters of Open MPI. env: of
    mpirun alone, so of host 0's ranks with Open MPI and of all ranks with MPICH; None removes a variable. ranks:
    environment of all ranks. before: words in front of mpirun, such as weirctl run.
    """
    name = name or 'mpirun'
    folder = os.path.join(rack.folder, '%s-%d' % (name, len(rack.processes)))
    os.mkdir(folder)
    report = os.path.join(folder, 'report')
    made = plug_in(rack, mpi, weir, settings or {}, report) if weir else ({}, {}, {})
    around = {key: value for key, value in os.environ.items() if not key.startswith(('WEIR_', 'OMPI_', 'LD_PRELOAD'))}
    around.update({'LD_PRELOAD': yielding(rack)} if mpi == 'mpich' else {})
    around.update(made[0])
    around.update(env or {})
    program = launcher(rack, mpi, range(hosts) if isinstance(hosts, int) else hosts, per_host, folder, {**made[1], **(mca or {})}, {**made[2], **(ranks or {})})
    process = rack.spawn(0, [*TOGETHER, *AT_HOST, 'weir-h0', *before, *program, *words], name,
                         {key: str(value) for key, value in around.items() if value is not None})
    return Run(rack, process, report)


def mpirun(rack, words, seconds=SECONDS, status=0, **options):
    """Run a program to its end; see start(). Returns a Run; raises RackError unless it ends in time with this status."""
    run = start(rack, words, **options)
    run.wait(seconds, status)
    return run
