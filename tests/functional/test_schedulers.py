#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Slurm's daemons on the hosts of a rack, with Weir's task-prolog and epilog: Slurm jobs get a name space each, and
leave no temporary job on the switch. Everything of Slurm is private: folder, key, socket, ports, process ids. Of the
example for Kubernetes only the syntax is checked."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

from tap import Skip, case, check, main, wait_for
from mpi import PORT, SWITCH, plug_in, running, yielding
from rack import RackError, command, tail

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCRIPTS = os.path.join(ROOT, 'configs', 'slurm')
HOSTS = 2
PROGRAMS = ('munged', 'slurmctld', 'slurmd', 'srun', 'sbatch', 'scancel')

# Creates a job as a rank would; it stays, as that of a killed program does until it expires.
CREATE = r'''
import http.client, json, os, sys
for name in sys.argv[1:]:
    link = http.client.HTTPConnection('10.77.0.254', %d, timeout=60)
    link.request('POST', '/v1/jobs', json.dumps({'name': name, 'size': 2, 'temporary': True, 'expire_s': 3600}),
                 {'Content-Type': 'application/json'})
    answer = link.getresponse()
    assert answer.status == 201, answer.read()
''' % PORT


class Slurm:
    """Slurm on all hosts of a rack, its controller on host 0; runs its commands there."""

    def __init__(self, rack, conf):
        self.rack, self.folder = rack, os.path.join(rack.folder, 'slurm')
        self.conf = os.path.join(self.folder, 'slurm.conf')
        self.daemons = []
        for name in ('', 'state', 'run', *['tmp-weir-h%d' % host for host in range(rack.hosts)]):
            os.mkdir(os.path.join(self.folder, name), 0o755)
        self.write('weir.conf', conf)
        key = self.write('munge.key', 'a secret of no value, thirty-two bytes')
        socket = os.path.join(self.folder, 'run', 'munge.sock')
        self.write('slurm.conf', '\n'.join('%s=%s' % pair for pair in {
            'ClusterName': 'weir', 'SlurmctldHost': 'weir-h0(%s)' % rack.address(0),
            'AuthType': 'auth/munge', 'CredType': 'cred/munge', 'AuthInfo': 'socket=' + socket,
            'SlurmUser': 'root', 'StateSaveLocation': self.folder + '/state', 'SlurmdSpoolDir': self.folder + '/spool-%n',
            'SlurmctldPidFile': self.folder + '/slurmctld.pid', 'SlurmdPidFile': self.folder + '/slurmd-%n.pid',
            'SlurmdLogFile': self.folder + '/slurmd-%n.log', 'TmpFS': self.folder + '/tmp-%n',
            'ProctrackType': 'proctrack/linuxproc', 'TaskPlugin': 'task/none', 'MpiDefault': 'none',
            'JobAcctGatherType': 'jobacct_gather/none', 'AccountingStorageType': 'accounting_storage/none',
            'SelectType': 'select/cons_tres', 'ReturnToService': '2', 'KillWait': '1', 'SlurmdParameters': 'config_overrides',
            'PartitionName': 'all Nodes=ALL Default=YES State=UP OverSubscribe=FORCE:8',
            'TaskProlog': self.script('task-prolog'), 'EpilogSlurmctld': self.script('epilog')}.items()) +
            ''.join('\nNodeName=weir-h%d NodeAddr=%s CPUs=8 State=UNKNOWN' % (h, rack.address(h)) for h in range(rack.hosts)) +
            '\n')
        self.write('cgroup.conf', 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s\n' % self.folder)
        self.daemon(0, 'munged', '--foreground', '--force', '--socket', socket, '--key-file', key,
                    *['--%s-file=%s/munged.%s' % (what, self.folder, what) for what in ('pid', 'log', 'seed')])
        wait_for(lambda: os.path.exists(socket), '%s', self.logs)
        self.daemon(0, 'slurmctld', '-D', '-c')
        for host in range(rack.hosts):
            self.daemon(host, 'slurmd', '-D', '-N', 'weir-h%d' % host)
        wait_for(lambda: self.call('sinfo', '-h', '-o', '%T %D').split() == ['idle', str(rack.hosts)], '%s', self.logs)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), 'w') as file:
            file.write(text)
        return path

    def script(self, name):
        """A script of ours that finds its settings, and weirctl, here."""
        path = self.write(name, '#!/bin/sh\nexport WEIR_SLURM_CONF=%s/weir.conf PATH=%s:$PATH\nexec %s\n' % (
            self.folder, os.path.dirname(self.rack.program(('ctl', 'weirctl'))), os.path.join(SCRIPTS, name)))
        os.chmod(path, 0o755)
        return path

    def within(self, host, words, pids):
        """On a host; with process ids of its own, all processes end with the first one."""
        return ['unshare', '--uts'] + (['--pid', '--fork', '--kill-child', '--mount-proc'] if pids else []) + [
            'sh', '-c', 'hostname weir-h%d; exec "$@"' % host, 'sh', *words]

    def environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith(('WEIR_', 'OMPI_', 'SLURM_'))}
        return dict(env, SLURM_CONF=self.conf)

    def daemon(self, host, name, *options):
        self.daemons.append(self.rack.spawn(host, self.within(host, [shutil.which(name), *options], True), name,
                                            self.environment()))

    def call(self, *words, env=None, status=0):
        """A command of Slurm's, to its end. Returns its output."""
        run = self.rack.spawn(0, self.within(0, words, False), words[0], dict(self.environment(), **(env or {})))
        found = run.end(60)
        if found != status:
            raise RackError('%s: status %d\n%s\n%s' % (' '.join(words), found, run.output, self.logs()))
        return run.output

    def logs(self):
        return '\n'.join('%s:\n%s' % (p.name, tail(p.log, 8)) for p in self.daemons)


@contextlib.contextmanager
def slurm(conf='WEIR_SWITCH=%s\n' % SWITCH):
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        raise Skip('%s is not installed (.ci/install packages.mpi)' % ', '.join(missing))
    with running(HOSTS) as rack:
        yield rack, Slurm(rack, conf)


def weir_of(text):
    """What a task's environment has of Weir's."""
    return {k: v for k, v in (line.split('=', 1) for line in text.splitlines() if '=' in line)
            if k.startswith(('WEIR_', 'OMPI_MCA_coll_weir_'))}


@case
def each_slurm_job_has_a_name_space_and_leaves_no_jobs():
    with slurm() as (rack, up):
        create = os.path.join(rack.folder, 'create.py')
        with open(create, 'w') as file:
            file.write(CREATE)
        rack.call(0, [sys.executable, create, 'others', 's10.a'])
        # By srun, on both nodes, with a failure, and from a batch script.
        out = up.call('srun', '-N', '2', '-n', '2', 'sh', '-c',
                      '[ $SLURM_PROCID = 1 ] || python3 %s $WEIR_NAMESPACE.a $WEIR_NAMESPACE.b; env | grep -i weir_; exit 3' % create, status=3)
        check(weir_of(out) == {'WEIR_SWITCH': SWITCH, 'WEIR_NAMESPACE': 's1', 'OMPI_MCA_coll_weir_switch': SWITCH,
                               'OMPI_MCA_coll_weir_namespace': 's1'}, '%s', out)
        check(out.count('WEIR_NAMESPACE=s1\n') == 2, 'not in both tasks: %s', out)
        wait_for(lambda: set(rack.jobs_now()) == {'others', 's10.a'}, '%s %s', rack.jobs_now, up.logs)
        script = up.write('batch', '#!/bin/sh\necho batch $WEIR_NAMESPACE $WEIR_SWITCH\n'
                          'python3 %s $WEIR_NAMESPACE.a\nsleep 1000\n' % create)
        said = os.path.join(up.folder, 'batch.out')
        up.call('sbatch', '-o', said, script)
        wait_for(lambda: 's2.a' in rack.jobs_now(), '%s\n%s', lambda: tail(said), up.logs)
        with open(said) as file:
            check(file.read() == 'batch s2 %s\n' % SWITCH, 'the batch script')
        up.call('scancel', '2')
        wait_for(lambda: set(rack.jobs_now()) == {'others', 's10.a'}, '%s %s', rack.jobs_now, up.logs)


PROGRAM = r"""
#include <mpi.h>
int main(void)
{
	static int one[16384], sum[16384];
	MPI_Init(0, 0);
	one[0] = 1;
	MPI_Allreduce(one, sum, 16384, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	return sum[0] != 2;
}
"""


def ranks_of(rack, up, library, words, env):
    """Run a program of two ranks by srun, which has to reach the switch by a job of its name space."""
    if not shutil.which('mpicc.' + library):
        print('# %s is not installed (.ci/install packages.mpi)' % library)
        return 0
    path = os.path.join(rack.folder, library)
    command(['mpicc.' + library, '-x', 'c', '-o', path, '-'], PROGRAM)
    out = up.call('srun', '-n', '2', *words, path, env=env)
    check(len(re.findall(r'allreduce 1 \(job s\d\.', out)) == 2 and not rack.jobs_now(), '%s', out)
    return 1


@case
def users_may_choose_and_mpi_programs_of_srun_run_in_their_name_spaces():
    with slurm('WEIR_SWITCH=%s\nWEIR_FOR_ALL=1\n' % SWITCH) as (rack, up):
        out = weir_of(up.call('srun', 'env'))
        check(out['OMPI_MCA_coll_weir_enable'] == '1' and out['WEIR_NAMESPACE'] == 's1', '%s', out)
        out = weir_of(up.call('srun', 'env', env={'OMPI_MCA_coll_weir_enable': '0', 'WEIR_SWITCH': 'http://other:1',
                                                  'WEIR_NAMESPACE': 'mine'}))
        check(out == {'WEIR_SWITCH': 'http://other:1', 'WEIR_NAMESPACE': 'mine', 'OMPI_MCA_coll_weir_enable': '0',
                      'OMPI_MCA_coll_weir_switch': 'http://other:1', 'OMPI_MCA_coll_weir_namespace': 'mine'}, '%s', out)
        # An empty address: without Weir.
        check(weir_of(up.call('srun', 'env', env={'WEIR_SWITCH': ''})) == {'WEIR_SWITCH': ''}, 'switched off')
        plugins = os.path.join(rack.build, 'apps', 'mpi')
        ran = shutil.which('mpicc.openmpi') and ranks_of(rack, up, 'openmpi', ['--mpi=pmix', '-N', '2'], {
            'OMPI_MCA_mca_base_component_path': plug_in(rack, 'openmpi', 'component', {}, '')[0]['OMPI_MCA_mca_base_component_path'],
            'OMPI_MCA_coll_weir_verbose': '1', 'OMPI_MCA_coll_weir_contact_ms': '60000', 'OMPI_MCA_pml': 'ob1', 'OMPI_MCA_btl': 'tcp,self',
            'OMPI_MCA_btl_tcp_if_include': 'eth1', 'OMPI_MCA_mpi_yield_when_idle': '1'})
        # Ranks of MPICH have only shared memory for messages of their own, so they are on one node.
        both = ':'.join((os.path.join(plugins, 'pmpi', 'libweir-mpi-mpich.so'), yielding(rack)))
        ran = ranks_of(rack, up, 'mpich', ['--mpi=pmi2', '-N', '1'], {
            'LD_PRELOAD': both, 'UCX_TLS': 'sysv,self', 'WEIR_MPI_FLAT': '1', 'WEIR_MPI_VERBOSE': '1',
            'WEIR_MPI_CONTACT_MS': '60000'}) or ran
    if not ran:
        raise Skip('no MPI is installed')


@case
def scripts_never_fail():
    """Slurm would drain a node, or kill a task."""
    for name in ('task-prolog', 'epilog'):
        for conf, env in (('/nonexistent', {'SLURM_JOB_ID': '7'}), ('/dev/null', {'SLURM_JOB_ID': '7'}), ('/dev/null', {}),
                          ('/dev/stdin', {'SLURM_JOB_ID': '7', 'PATH': os.environ['PATH']})):
            run = subprocess.run([os.path.join(SCRIPTS, name)], env=dict(env, WEIR_SLURM_CONF=conf), text=True,
                                 input='WEIR_SWITCH=unix:/nonexistent\n', timeout=60, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE)
            lines = 4 if name == 'task-prolog' and conf == '/dev/stdin' else 0
            check((run.returncode, run.stdout.count('\n'), run.stderr) == (0, lines, ''), '%s: %s', conf, run)


@case
def the_example_for_kubernetes_is_well_formed():
    try:
        import yaml
    except ImportError:
        raise Skip('python3-yaml is not installed') from None
    with open(os.path.join(ROOT, 'configs', 'kubernetes', 'mpijob.yaml')) as file:
        text = file.read()
    check('has not run in a cluster' in text, 'not labelled')
    network, job = yaml.safe_load_all(text)
    check(json.loads(network['spec']['config'])['ipam']['exclude'] == ['10.77.0.254/32'], '%s', network)
    check((job['apiVersion'], job['kind']) == ('kubeflow.org/v2beta1', 'MPIJob'), '%s', job)
    replicas = job['spec']['mpiReplicaSpecs']
    for pods in replicas.values():
        joined = pods['template']['metadata']['annotations']['k8s.v1.cni.cncf.io/networks']
        check(joined == network['metadata']['name'], '%s', pods)
    words = replicas['Launcher']['template']['spec']['containers'][0]['command']
    check(words[words.index('-n') + 1] == str(replicas['Worker']['replicas'] * job['spec']['slotsPerWorker']), '%s', words)
    with open(os.path.join(ROOT, 'configs', 'kubernetes', 'switch.yaml')) as file:
        text = file.read()
    check('has\n# not run in a cluster' in text, 'not labelled')
    pod = yaml.safe_load(text)['spec']['template']['spec']
    (container,) = pod['containers']
    check({mount['name'] for mount in container['volumeMounts']} == {volume['name'] for volume in pod['volumes']}, '%s', pod)
    with open(os.path.join(ROOT, 'configs', 'systemd', 'weir-switch@.service.in')) as file:
        unit = re.search('^CapabilityBoundingSet=(.*)$', file.read(), re.M).group(1)
    rights = {'CAP_' + name for name in container['securityContext']['capabilities']['add']}
    check(rights == set(unit.split()), '%s, and not those of the unit', rights)


if __name__ == '__main__':
    sys.exit(main())
