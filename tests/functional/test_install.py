#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What is installed works where it is installed: from `meson install`, and from the Debian package,
in a throw-away copy of this machine."""
import atexit
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile

import tap
from installed import BUILD, ROOT, Stage, call, option
from tap import Skip, case, check, main
from machine import Machine

tap.SECONDS = 1200  # it compiles the package


@case
def installed_programs_and_configurations():
    with Stage() as stage:
        switch = stage.path('bin', 'weir-switch')
        check(re.match(r'weir-switch \d', call([switch, '--version'])), 'no version')
        for name in ('demo', 'join', 'minimal', 'tree-leaf', 'tree-spine'):
            call([switch, '--check', '-c', stage.path('share/weir/configs', name + '.json')])
        for name in ('perf', 'capture', 'bench'):
            call([stage.path('bin', 'weir-' + name), '--help'])
        for name in ('hosts', 'pair', 'plan', 'ports', 'tree'):
            call([stage.path('bin', 'weir-bench'), name, '--help'])
        scenarios = stage.path('share', 'weir', 'faults', 'scenarios')
        told = call([stage.path('bin', 'weir-faults'), 'list'] + glob.glob(os.path.join(scenarios, '*')))
        check(told.count('\n') >= 150, 'scenarios: %s', told)
        call([stage.path('bin', 'weir-faults'), 'run', os.path.join(scenarios, 'first-window.json:in')],
             env={k: v for k, v in os.environ.items() if k != 'WEIR_BUILD'})
        for name in ('operations.md', 'configuration.md', 'LICENSE'):
            check(os.path.exists(stage.path('share/doc/weir', name)), '%s is missing', name)
        page = open(stage.path('share/man/man8/weir-switch.8')).read()
        for name in set(re.findall(r'--([a-z][a-z-]*)', call([switch, '--help']))) - {'usage'}:
            check(re.search(r'Fl -' + name + r'\b', page), 'weir-switch(8) lacks --%s', name)
        for name in ('bash-completion/completions/weirctl', 'fish/vendor_completions.d/weirctl.fish', 'zsh/site-functions/_weirctl'):
            check(os.path.exists(stage.path('share', name)), '%s is missing', name)
        unit = open(stage.path('lib/systemd/system/weir-switch@.service')).read()
        check('@' not in re.sub(r'weir-switch@|modprobe@|=~?@[a-z-]+( @[a-z-]+)*|~@[a-z @-]+', '',
                                unit), 'a placeholder is left in the unit:\n%s', unit)
        check('ExecStart=%s/bin/weir-switch ' % option('prefix') in unit, '%s', unit)


@case
def make_install_installs_what_users_need():
    """Nothing is compiled here: meson and ninja say what they would do."""
    said = call(['make', '-C', ROOT, '--dry-run', 'install', 'prefix=/usr', 'DESTDIR=/tmp/x'])
    for words in ('.ci/build build-install install --prefix=/usr', 'DESTDIR=/tmp/x meson install'):
        check(words in said, '%s lacks %s', said, words)
    check('.ci/install' not in said, 'it installs packages: %s', said)
    check('.ci/install' in call(['make', '-C', ROOT, '--dry-run', 'packages']), 'make packages')


def mpis():
    """The MPI libraries for which plug-ins are packed: all, or none if the headers of one are missing."""
    kinds = ['openmpi', 'mpich']
    return kinds if all(shutil.which('mpicc.' + kind) for kind in kinds) else []


OVERLAY = '''
mount --make-rprivate /
mount -t tmpfs tmpfs "$F/over"
for lower in $LOWER; do
    over=$(mktemp -d "$F/over/XXXXXX")
    mkdir "$over/up" "$over/work"
    mount -t overlay overlay -o "lowerdir=$lower,upperdir=$over/up,workdir=$over/work" "$lower"
done
exec "$ROOT/.ci/deb" "$F"
'''


@functools.cache
def built():
    """The Debian packages, {name: path}: from the objects of the build under test, which only the paths of the
    installation differ from; an overlay keeps that build and the source as they are."""
    folder = tempfile.mkdtemp(prefix='weir-packages-')
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.mkdir(os.path.join(folder, 'over'))
    os.symlink(BUILD, os.path.join(folder, 'build'))
    lower = ROOT if BUILD.startswith(ROOT + '/') else ROOT + ' ' + BUILD
    env = dict(os.environ, LOWER=lower, F=folder, ROOT=ROOT, WEIR_OPTIONS='-Dwerror=true')
    if not mpis():
        env['DEB_BUILD_PROFILES'] = 'pkg.weir.nompi'
    lacks = subprocess.run(['dpkg-checkbuilddeps', os.path.join(ROOT, 'debian', 'control')], env=env, check=False,
                           text=True, capture_output=True)
    if lacks.returncode != 0:
        raise Skip('.ci/packages.deb: %s' % lacks.stderr.strip())
    said = call(['unshare', '--mount', 'sh', '-ec', OVERLAY], env=env)
    made = {os.path.basename(path).split('_')[0]: path for path in said.splitlines()}
    check({re.sub(r'\d+$', 'N', name) for name in made} ==
          {'libweirN', 'libweir-dpdk', 'libweir-bin', 'libweir-dev', 'python3-weir', 'libnccl-net-weir', 'weir', 'weir-program-dev'} |
          {'weir-' + kind for kind in mpis()}, '%s', made)
    return made


def packages(machine):
    """Puts them where the machine sees them, as name.deb. Returns {name: path}."""
    if option('b_sanitize') != 'none':
        raise Skip('sanitizers are not packed')
    for name, path in built().items():
        shutil.copy(path, os.path.join(machine.folder, name + '.deb'))
    return built()


PACKAGE = '''
            dpkg -i /exchange/weir.deb /exchange/libweir-bin.deb
            weir-switch --version
            weir-switch --check -c /etc/weir/demo.json
            weir-switch --check -c /usr/share/weir/configs/minimal.json
            dpkg --verify weir
            if command -v systemd-analyze; then
            SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no weir-switch@demo.service 2>&1 \\
                | grep weir-switch && exit 1
            systemd-analyze security --offline=true --threshold=40 weir-switch@.service | tail -1
            fi
            mkdir -p /var/lib/weir; touch /var/lib/weir/demo.state
            echo '{"mine": true}' >/etc/weir/mine.json
            systemctl enable weir-switch@demo weir-switch@mine
            mkdir -p /run/weir; touch /run/weir/started-by-hand.sock
            cp /bin/sleep /tmp/weir-switch; /tmp/weir-switch 300 &
            dpkg -r weir
            test -e /run/weir/started-by-hand.sock
            kill $!; wait $! || true
            test ! -L /etc/systemd/system/multi-user.target.wants/weir-switch@demo.service
            test ! -L /etc/systemd/system/multi-user.target.wants/weir-switch@mine.service
            test ! -e /usr/bin/weir-switch
            test -e /etc/weir/demo.json -a -e /var/lib/weir/demo.state
            dpkg -P weir libweir-bin
            cat /etc/weir/mine.json
            rm /etc/weir/mine.json; rmdir /etc/weir
'''
# A host has the library without the switch: what programs run with, and are built with.
HOST = '''
            dpkg -i /exchange/%(library)s.deb /exchange/libweir-dev.deb /exchange/libweir-bin.deb /exchange/python3-weir.deb \\
                /exchange/libnccl-net-weir.deb
            dpkg --verify %(library)s libweir-dev libweir-bin python3-weir libnccl-net-weir
            weir-perf --version
            if ldd /usr/lib/*/libweir.so.0 | grep rte; then exit 1; fi
            export WEIR_DPDK='--no-huge --no-pci'
            HOST='weir-perf --switch 10.0.0.1 --address 10.0.0.2 --job 1 --source 0 --sources 1'
            WEIR_TRANSPORT=dpdk $HOST 2>&1 | grep 'cannot be loaded'
            dpkg -i /exchange/libweir-dpdk.deb
            WEIR_TRANSPORT=dpdk $HOST 2>&1 | grep 'DPDK has no device'
            dpkg -P libweir-dpdk
            weirctl --version
            mkdir /tmp/x
            make -s -f /usr/share/doc/weir/examples/libweir/Makefile FOLDER=/tmp/x
            ldconfig -p | grep libweir.so
            # As NCCL loads it.
            python3 -c 'import ctypes; print(ctypes.CDLL("libnccl-net-weir.so").ncclCollNetPlugin_v8)'
            for program in /tmp/x/collectives 'python3 /usr/share/doc/weir/examples/python/without_numpy.py'; do
            WEIR_SWITCH=unix:/nowhere WEIR_JOB=x WEIR_RANK=0 WEIR_SIZE=1 $program 2>&1 | grep /nowhere
            done
            MANPATH=/usr/share/man man -w weir_ibarrier 2>/dev/null || echo no man here
            dpkg -P libnccl-net-weir python3-weir libweir-bin libweir-dev %(library)s
'''
# Open MPI finds the component in its own folder (Open MPI 5.0.7 of Debian 13 with that path alone: docs/mpi.md), the linker the
# libraries to preload; neither needs the switch's package.
MPI = {'openmpi': '''
            ompi_info --param coll weir --level 9 --parsable | grep coll_weir_min_bytes:help
            mpirun.openmpi --allow-run-as-root --mca mca_base_component_path "$(ompi_info --path pkglibdir --parsable | cut -d: -f3)" \\
                --mca coll_weir_enable 1 --mca coll_weir_verbose 1 --oversubscribe -n 2 /tmp/program
''', 'mpich': '''
            mpirun.mpich -genv WEIR_MPI_VERBOSE 1 -genv LD_PRELOAD libweir-mpi-mpich.so -n 2 /tmp/program
'''}
PROGRAM = '''
            echo '#include <mpi.h>
            int main(void) { return MPI_Init(0, 0) || MPI_Barrier(MPI_COMM_WORLD) || MPI_Finalize(); }' >/tmp/program.c
            mpicc.%(kind)s -o /tmp/program /tmp/program.c
            dpkg -i /exchange/weir-%(kind)s.deb
            dpkg --verify weir-%(kind)s
            %(run)s
            dpkg -P weir-%(kind)s
'''
LIST = 'find /etc /usr /var/lib /run -xdev 2>/dev/null | sort >/tmp/%s\n'


@case
def the_packages_install_work_and_leave_no_trace():
    with Machine() as machine:
        made = packages(machine)
        (library,) = (name for name in made if re.fullmatch(r'libweir\d+', name))
        for name in (library, 'libweir-bin', 'libweir-dev', 'libnccl-net-weir'):
            check('rte' not in call(['dpkg-deb', '--field', made[name], 'Depends']), '%s wants DPDK', name)
        for kind in mpis()[:1]:
            depends = call(['dpkg-deb', '--field', made['weir-' + kind], 'Depends'])
            check(re.search(r'libopenmpi\w+ \(>= \d[\d.]+\), libopenmpi\w+ \(<< \d+\.\d+~\)', depends), '%s', depends)
        said = machine.run('ip link set lo up\n' + LIST % 'before' + PACKAGE + HOST % {'library': library} + ''.join(
            PROGRAM % {'kind': kind, 'run': MPI[kind]} for kind in mpis()) + LIST % 'after' +
                           'diff /tmp/before /tmp/after | grep weir || echo nothing is left')
        check(said.endswith('nothing is left\n'), '%s', said)
        check(said.count('weir: rank 0: offloaded 0 of ') == len(mpis()), '%s', said)


@case
def lintian_finds_nothing():
    if not shutil.which('lintian'):
        raise Skip('lintian is not installed')
    said = call(['lintian', '-E', '--pedantic', '--allow-root', '--fail-on', 'error,warning,pedantic,experimental',
                 *built().values()])
    check(said == '', '%s', said)


def words(*lists):
    """The packages of these lists below .ci."""
    found = []
    for name in lists:
        with open(os.path.join(ROOT, '.ci', name)) as file:
            found += re.sub('#.*', '', file.read()).split()
    return set(found)


@case
def hosts_need_no_dpdk():
    """Where pkg-config does not see DPDK, the hosts' programs are built alone, and it is said why."""
    with tempfile.TemporaryDirectory(prefix='weir-host-') as folder:
        seen = os.path.join(folder, 'pkgconfig')
        os.mkdir(seen)
        for place in reversed(call(['pkg-config', '--variable=pc_path', 'pkg-config']).strip().split(':')):
            for path in glob.glob(os.path.join(place, '*.pc')):
                link = os.path.join(seen, os.path.basename(path))
                if os.path.basename(path) != 'libdpdk.pc' and not os.path.lexists(link):
                    os.symlink(path, link)
        env = dict(os.environ, PKG_CONFIG_LIBDIR=seen)
        said = call(['meson', 'setup', os.path.join(folder, 'build'), ROOT, '-Dtests=false'], env=env)
        check(len(re.findall(r'(?:switch|tools) +: left out: it needs libdpdk 22.11', said)) == 2, '%s', said[-2000:])
        commands = call(['ninja', '-C', os.path.join(folder, 'build'), '-t', 'commands', 'programs'])
        for name in ('weir-perf', 'weirctl', 'libweir.so', 'libnccl-net-weir.so'):
            check(name in commands, 'no %s', name)
        check('dpdk' not in commands and 'rte_' not in commands, '%s', commands)
        refused = subprocess.run(['meson', 'setup', os.path.join(folder, 'other'), ROOT, '-Dtests=false', '-Dcomponents=switch'],
                                 env=env, text=True, capture_output=True, timeout=900, check=False)
        check(refused.returncode != 0 and 'switch needs libdpdk 22.11' in refused.stdout, '%s', refused.stdout)


@case
def build_dependencies_are_the_lists():
    with open(os.path.join(ROOT, 'debian', 'control')) as file:
        field = re.search(r'^Build-Depends:((?:\n .*)+)', file.read(), re.M).group(1)
    control = {re.sub(r'[ :].*', '', line.strip()) for line in field.split(',') if line.strip()}
    names = {'debhelper-compat': 'debhelper', 'dh-sequence-python3': 'dh-python'}
    control = {names.get(name, name) for name in control}
    with open(os.path.join(ROOT, '.ci', 'packages')) as file:
        runs = words('packages') - set(re.sub('#.*', '', file.read().split('# run')[0]).split())
    lists = words('packages.host', 'packages', 'packages.deb') - runs - {'gcc', 'libc6-dev', 'build-essential'}
    check(control | {'python3'} == lists, 'debian/control and .ci/packages.host, packages, packages.deb differ: %s',
          (control | {'python3'}) ^ lists)
    check({'libmpich-dev', 'libopenmpi-dev', 'openmpi-bin'} <= words('packages.mpi'), 'packages.mpi')


@case
def one_version_everywhere():
    version = call([os.path.join(ROOT, '.ci', 'release'), 'check']).strip()
    with open(os.path.join(BUILD, 'meson-info', 'intro-projectinfo.json')) as file:
        check(json.load(file)['version'] == version, '%s', version)


# A machine of tests has no network: apt-get looks up what Debian has, and installs what was built.
APT_GET = '''
cat >/usr/bin/apt-get <<'END'
#!/bin/sh -e
[ "$1" = install ] || exit 0
shift
for word; do
    case $word in -*) ;; /*) built="$built $word" ;; *) apt-cache show "$word" >/dev/null ;; esac
done
dpkg -i $built
END
mkdir /debs
for deb in /exchange/*.deb; do cp "$deb" "/debs/$(basename "$deb" .deb)_0_all.deb"; done
'''


@case
def the_steps_of_the_images_run():
    """But for those of the first stage, which is make deb."""
    if not mpis():
        raise Skip('no plug-in for Open MPI')
    with open(os.path.join(ROOT, 'Containerfile')) as file:
        stages = re.split(r'^FROM \S+ AS (\w+)$', file.read().replace('\\\n', ''), flags=re.M)
    stages = dict(zip(stages[1::2], stages[2::2]))
    steps = {name: re.findall(r'^RUN (?:--mount=\S+ +)?(.*)$', text, re.M) for name, text in stages.items()}
    check({name: len(runs) for name, runs in steps.items()} == {'build': 1, 'host': 2, 'switch': 2}, '%s', steps)
    with Machine() as machine:
        packages(machine)
        said = machine.run(APT_GET + '\n'.join(steps['host'] + steps['switch']) + '''
            weir-perf --version
            cd / && python3 -c 'import weir._library; print(weir._library.library())'
            %s --version
            ''' % json.loads(re.search('^ENTRYPOINT (.*)$', stages['switch'], re.M).group(1))[0])
        for word in ('weir-perf 0', 'CDLL', 'weir-switch 0'):
            check(word in said, '%s', said)


SERVICE = '''
mkdir -p /run/systemd/system/weir-switch@.service.d
printf '[Service]\\nWatchdogSec=10\\n' >/run/systemd/system/weir-switch@.service.d/test.conf
dpkg -i /exchange/weir.deb /exchange/libweir-bin.deb
ip link set lo up
# Before its interfaces are there it fails, and says why.
timeout 600 systemctl start weir-switch@demo && exit 1
journalctl -u weir-switch@demo -o cat | grep 'interface p0 of port p0 does not exist'
systemctl stop weir-switch@demo
systemctl reset-failed weir-switch@demo 2>/dev/null || true
# A wrong file is not tried again.
echo '{"switch": 7}' >/etc/weir/wrong.json
timeout 600 systemctl start weir-switch@wrong && exit 1
sleep 3
test "$(systemctl show -p NRestarts -p ExecMainStatus -p ActiveState --value weir-switch@wrong | sort | tr '\\n' ' ')" = '0 2 failed '
rm /etc/weir/wrong.json
/usr/share/weir/demo-rack up
timeout 600 systemctl start weir-switch@demo
systemctl is-active weir-switch@demo
systemctl show -p StatusText -p Result weir-switch@demo
weirctl jobs | grep '^resnet50 .*joining'
systemctl reload weir-switch@demo
journalctl -u weir-switch@demo -o cat | grep 'level=notice module=ctrl msg="configuration reloaded"'
# One that is refused fails, says why, and leaves the switch alone.
cp /etc/weir/demo.json /tmp/good.json
sed 's/"switch": *{/"switch": { "jops": 1, /' /tmp/good.json >/etc/weir/demo.json
systemctl reload weir-switch@demo && exit 1
journalctl -u weir-switch@demo -o cat | grep 'weirctl: .*jops: unknown key'
systemctl is-active weir-switch@demo
cp /tmp/good.json /etc/weir/demo.json
systemctl reload weir-switch@demo
# A group may use its socket.
python3 -c 'import json, sys; c = json.load(sys.stdin); c["api"]["socket_group"] = "daemon"; print(json.dumps(c))' \
    </tmp/good.json >/etc/weir/demo.json
timeout 600 systemctl restart weir-switch@demo
test "$(stat -c '%a %G' /run/weir/*.sock)" = '660 daemon'
cp /tmp/good.json /etc/weir/demo.json
# It does its work under all that the unit denies it.
ip netns exec weir-h1 weir-perf --switch 10.77.0.254 --address 10.77.0.2 --source 1 --job 2 -b 4K -e 64K -f 4 -n 3 &
ip netns exec weir-h0 weir-perf --switch 10.77.0.254 --address 10.77.0.1 --source 0 --job 2 -b 4K -e 64K -f 4 -n 3
wait $!
ip netns exec weir-h2 ping -n -c 3 -i 0.2 10.77.0.254
ls -la /run/weir /var/lib/weir /run/dpdk
# An upgrade leaves it alone.
before=$(systemctl show -p MainPID --value weir-switch@demo)
dpkg -i /exchange/weir.deb
test "$before" = "$(systemctl show -p MainPID --value weir-switch@demo)"
# A switch that hangs is ended and started again.
kill -STOP "$before"
set +x
for i in $(seq 3000); do
    now=$(systemctl show -p NRestarts -p ActiveState --value weir-switch@demo | tr '\\n' ' ')
    test "$now" = '1 active ' -o "$now" = 'active 1 ' && break
    sleep 0.1
done
set -x
test "$(systemctl show -p NRestarts --value weir-switch@demo)" = 1
systemctl is-active weir-switch@demo
systemctl enable weir-switch@demo
dpkg -P weir
test ! -L /etc/systemd/system/multi-user.target.wants/weir-switch@demo.service
systemctl is-active weir-switch@demo && exit 1
journalctl -u weir-switch@demo -o cat | grep 'everything returned'
/usr/share/weir/demo-rack down 2>/dev/null || true
left=$(ls -d /etc/weir /run/weir /var/lib/weir 2>/dev/null || true)
test -z "$left" || { ls -laR $left; grep '' /proc/[0-9]*/comm; exit 1; }
'''


@case
def the_demo_runs_as_a_service():
    with Machine() as machine:
        packages(machine)
        said = machine.boot(SERVICE)
        check(said.count('weir-switch: stopped, everything returned') == 2, '%s', said)


if __name__ == '__main__':
    main()
