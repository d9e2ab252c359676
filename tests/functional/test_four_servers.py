#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/four-servers.md, run on four servers: namespaces with cables between their interfaces. systemctl is a
script that starts the switch as the unit does, and the packages are those of the build."""
import os
import re
import subprocess
import sys
import tempfile

from tap import Skip, case, check, main
from rack import ROOT

BUILD = os.environ['WEIR_BUILD']
OWN = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
SYSTEMCTL = '''#!/bin/sh
weir-switch -c "/etc/weir/${3#*@}.json" >/run/switch.log 2>&1 &
for _ in $(seq 3000); do
	grep -q ready /run/switch.log && exit 0
	kill -0 $! || break
	sleep 0.1
done
cat /run/switch.log
exit 1
'''
# The machines, and the cables. A veth has no hardware that computes checksums.
BEGIN = '''
set -eu
mount -t tmpfs none /run
mkdir /run/etc # /etc with a folder weir of its own
mount --bind /etc /run/etc
mount -t tmpfs none /etc
ln -s /run/etc/* /etc/
rm -f /etc/weir
mkdir /etc/weir
ip netns add switch
ip -n switch link set lo up
for N in 1 2 3; do
	ip netns add host$N
	ip -n host$N link set lo up
	ip link add eth$N netns switch type veth peer name eth1 netns host$N
	ip netns exec host$N ethtool -K eth1 tx off >/dev/null
	mkdir "$FOLDER/home$N"
done
on_the_switch() { echo "switch: $1"; ip netns exec switch bash -eu "$1"; }
on_each_host() {
	local pids='' failed=0
	echo "hosts: $1"
	for N in 1 2 3; do
		(cd "home$N" && N=$N exec ip netns exec host$N bash -eu "$1" >"$1.$N" 2>&1) &
		pids="$pids $!"
	done
	for pid in $pids; do wait "$pid" || failed=1; done
	[ $failed = 0 ] || { tail -n 30 "$1".[123] /run/switch.log; exit 1; }
	cat "$1".1
}
'''


def blocks(*steps):
    """The blocks of commands of these steps: [(where, text)]."""
    with open(os.path.join(ROOT, 'docs', 'four-servers.md')) as page:
        sections = dict(re.findall(r'^## (\d)\. (.*?)(?=^## )', page.read(), re.M | re.S))
    text = ''.join(sections[str(step)] for step in steps)
    found = re.findall(r'^```\n# on (the switch|each host)[^\n]*\n(.*?)^```$', text, re.M | re.S)
    check(2 * len(found) == len(re.findall('^```', text, re.M)), '%d of the blocks say where', len(found))
    return [(where, re.sub(r'^N=1 .*\n', '', commands, flags=re.M)) for where, commands in found]


def run(steps):
    """What the commands print."""
    with tempfile.TemporaryDirectory(prefix='weir-four-') as folder:
        tools = {'weir-switch': 'apps/switch/weir-switch', 'weirctl': 'apps/ctl/weirctl', 'weir-perf': 'apps/perf/weir-perf'}
        os.mkdir(os.path.join(folder, 'bin'))
        for name, path in [*((name, os.path.join(BUILD, path)) for name, path in tools.items()), ('python3', sys.executable)]:
            os.symlink(path, os.path.join(folder, 'bin', name))
        with open(os.path.join(folder, 'bin', 'systemctl'), 'w') as file:
            file.write(SYSTEMCTL)
        os.chmod(os.path.join(folder, 'bin', 'systemctl'), 0o755)
        script = BEGIN
        for number, (where, commands) in enumerate(steps):
            path = os.path.join(folder, 'block%d' % number)
            with open(path, 'w') as file:
                file.write(commands)
            script += 'on_%s %s\n' % (where.replace(' ', '_'), path)
        env = {key: value for key, value in os.environ.items() if not key.startswith(('WEIR_', 'COLUMNS'))}
        env.update(PATH=os.path.join(folder, 'bin') + ':' + env['PATH'], FOLDER=folder, OMP_NUM_THREADS='1',
                   PYTHONPATH=os.path.join(ROOT, 'apps', 'python'),
                   WEIR_LIBRARY=os.path.join(BUILD, 'apps', 'libweir', 'libweir.so'))
        done = subprocess.run(OWN + ['bash', '-c', script], cwd=folder, env=env, timeout=800, text=True, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0 and re.match(r'(unshare|mount): ', done.stdout):
        raise Skip('no namespaces of its own: ' + done.stdout.strip())
    check(done.returncode == 0, 'status %d\n%s', done.returncode, done.stdout)
    return done.stdout


@case
def an_allreduce_is_verified():
    said = run(blocks(2, 3, 4))
    check('Out of bounds values : 0 OK' in said, '%s', said)
    check(re.search(r'^gone$', said, re.M) and re.search(r'^host3 ', said, re.M), '%s', said)
    for line in re.findall(r'^ +\d+ +\d+ +fp32.*$', said, re.M):
        print('# ' + line)


@case
def a_script_is_trained():
    if not any(os.path.exists(os.path.join(path, 'torch', '__init__.py')) for path in sys.path):
        raise Skip('PyTorch is not installed (.ci/install packages.torch)')
    said = run(blocks(2, 3, 5))
    loss = re.search(r'^loss (\S+), in the switch: True$', said, re.M)
    check(loss and float(loss.group(1)) < 0.5, '%s', said)


if __name__ == '__main__':
    main()
