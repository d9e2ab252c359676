#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weir(7): what all programs have in common, made from the source; and docs/environment.md, of the same variables.

    man7.py ROOT DATE FILE    write the page
    man7.py ROOT              only check that it has every variable that is read, and no other

The exit statuses are STATUS_LIST of apps/report/options.h. The variables are those that the source reads; the page says
where. Their texts are here, but for those of the plug-ins for MPI, which OFFLOAD_SETTING_LIST has.
"""
import os
import re
import sys

from man3 import escape, prose

PAGE = r'''.\" SPDX-License-Identifier: BSD-3-Clause
.Dd %(date)s
.Dt WEIR 7
.Os
.Sh NAME
.Nm weir
.Nd what the programs of Weir have in common
.Sh DESCRIPTION
.Nm Weir
is a software switch that runs collectives inside the network.
.Bl -tag -width "weir-capture(1)"
.It Xr weir-switch 8
the switch
.It Xr weirctl 1
inspects and changes a running switch, and runs MPI programs on it
.It Xr weir-perf 1
measures collectives from the hosts
.It Xr weir-bench 1
measures a switch and its limits
.It Xr weir-faults 1
plays scenarios of losses, stragglers and dead hosts
.It Xr weir-capture 1
writes captures for packet generators
.It Xr weir-program 1
begins a program for the switch
.El
.Pp
Programs of hosts use libweir, see
.Xr weir 3 .
All programs have
.Fl -help
and
.Fl -version .
Where a program has
.Fl -json ,
it prints JSON on standard output, and its tables on standard error;
.Fl -json Ns = Ns Ar file
writes the JSON into a file.
.Pp
A
.Ar time
is a number followed by ns, us, ms, s, min or h, such as 50ms; the page of a
program says in what unit a number alone is.
A
.Ar size
is in bytes; K, M and G are powers of 1024.
.Sh ENVIRONMENT
A variable that is empty counts as not set.
libweir ignores all of them in a program that has more rights than its user, see
.Xr secure_getenv 3 .
.Bl -tag -width Ds
%(variables)s
.El
.Sh FILES
.Bl -tag -width Ds
%(files)s
.El
.Sh EXIT STATUS
.Bl -tag -width 1n
%(statuses)s
.El
.Pp
A line on standard error gives the reason.
.Nm weirctl Cm run
ends as its command does, with 127 if the command is not found and 126 if it
cannot be started.
.Sh SEE ALSO
.Xr weir-bench 1 ,
.Xr weir-capture 1 ,
.Xr weir-faults 1 ,
.Xr weir-perf 1 ,
.Xr weir-program 1 ,
.Xr weirctl 1 ,
.Xr weir 3 ,
.Xr weir-switch 8 ;
.Pa /usr/share/doc/weir
.Sh AUTHORS
.An The authors of Weir
'''

# Who reads: the names of folders in the page; the longest that fits.
READERS = [('apps/ctl/', 'weirctl'), ('apps/perf/', 'weir-perf'), ('apps/libweir/', 'libweir'), ('apps/bench/', 'weir-bench'),
           ('apps/libweir-dpdk/', 'libweir-dpdk'), ('apps/mpi/', 'MPI plug-ins'), ('apps/nccl/', 'NCCL plug-in'),
           ('apps/python/weir/_library.py', 'Python'), ('apps/python/weir/', 'PyTorch'), ('apps/switch/', 'weir-switch'),
           ('apps/stragglers/', 'experiments'), ('apps/compare/', 'experiments'), ('apps/rack/', 'weir-faults'),
           ('apps/faults/', 'weir-faults'), ('ctrl/programs/', 'sidecars'), ('ppe/programs/', 'sidecars'),
           ('ctrl/', 'weir-switch'), ('configs/pktgen/', 'scripts for Pktgen')]
VARIABLES = {
    'Programs of hosts': {
        'WEIR_SWITCH': 'The control API of the switch: http://HOST:PORT, https://HOST:PORT or unix:PATH.',
        'WEIR_TOKEN': 'A token for the switch of WEIR_SWITCH: of a tenant, or of a rank.',
        'WEIR_TOKEN_FILE': 'A file with that token, if WEIR_TOKEN is not set.',
        'WEIR_CA': "A PEM file of certificates to trust for https.",
        'WEIR_JOB': 'The job to join, by name. PyTorch, at rank 0, and MPI: the job of all ranks, which exists.',
        'WEIR_RANK WEIR_SIZE': 'The rank of this process and the number of ranks, if no launcher sets them.',
        'OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE PMI_RANK PMI_SIZE SLURM_PROCID SLURM_NTASKS RANK WORLD_SIZE':
            'The same, set by mpirun, mpiexec, srun and torchrun.',
        'WEIR_SETTINGS': 'Settings of the jobs that a program creates, separated by blanks: deterministic=true window=128.',
        'WEIR_NAMESPACE': "Prefix of the names of a program's jobs; weirctl run sets it.",
        'WEIR_REQUIRE': '1: a program ends, with the reason, where it would run without the switch.',
    },
    'Transports': {
        'WEIR_TRANSPORT': 'How packets travel: udp (the default), dpdk, another NAME for libweir-NAME.so, or the path of a library, with a slash.',
        'WEIR_DPDK': 'Arguments of EAL, separated by blanks, such as --no-huge.',
        'WEIR_DPDK_PORT': 'Which device, if EAL has several.',
        'WEIR_DPDK_MTU': "Bytes of an IP packet, 576 to 9600; the device's if it is not set.",
        'WEIR_DPDK_IDLE': 'What a waiting thread does between two polls: spin, which needs a CPU of its own; '
            'yield; or sleep (the default), which yields for spin_us, at least 30 us, then sleeps for 2 to 50 us at a time.',
        'WEIR_DPDK_SWITCH_MAC': "The switch's MAC address; it is asked for by ARP if it is not set.",
    },
    'MPI programs': {},  # those of apps/mpi/offload.h
    'NCCL, Python and PyTorch': {
        'WEIR_NCCL_TIMEOUT_S': 'Seconds that a communicator waits for all nodes, and a collective for the switch (20).',
        'WEIR_LIBRARY': 'The file of libweir to load.',
        'GLOO_SOCKET_IFNAME': "The interface of gloo, which PyTorch falls back to. Without it, gloo takes the address of the "
            "host's name, or if that is the loopback, the interface towards the switch.",
    },
    'The switch and its tools': {
        'COLUMNS': 'The width of the terminal.',
        'LD_PRELOAD OMPI_MCA_mca_base_env_list': 'What weirctl run adds to for its command.',
        'NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID': "The service manager's, see sd_notify(3).",
        'JOURNAL_STREAM': 'If it names standard error, log lines begin with their priority and have no time.',
    },
    'Sidecars of programs': {
        'WEIR_PROGRAM': 'The name of the program. WEIR_SETTING_KEY is the value of its setting "key".',
        'WEIR_SWITCH_IP WEIR_SWITCH_MAC': 'The IPv4 address and the MAC address of the switch.',
    },
    'Racks on one machine': {
        'WEIR_BUILD': 'The build directory whose programs to run, as --build.',
        'WEIR_KEEP': 'Not empty: keep the folder with configuration and logs, as --keep.',
        'WEIR_BATCH': 'workers.batch of the switches that are started.',
        'WEIR_BENCH_SPOIL': 'Set: change a result before it is checked, which must find it.',
    },
    'Packet generators': {
        'WEIR_SECONDS': 'How long to measure at a rate (5).',
        'WEIR_RATE': 'The rate, in per cent of the link (100).',
        'WEIR_RATES': 'The rates of rates.lua, in per cent.',
        'WEIR_SIZES': 'The sizes of frames, in bytes.',
        'WEIR_TABLE': 'A file for the table.',
        'WEIR_BACK': '1: ordinary frames travel in both directions.',
    },
}
FILES = {
    '/etc/weir/NAME.json': 'The configuration of systemctl start weir-switch@NAME, see weir.json(5).',
    '/run/weir': 'The Unix sockets NAME.sock of running switches, where weirctl looks for one, and their statistics.',
    '/var/lib/weir': 'Jobs and other state that outlives a restart (state.file).',
    '/usr/lib/weir/programs': 'Programs that a switch can load (program_directory); in packages below /usr/lib/ARCHITECTURE.',
    '/usr/share/weir/configs': 'Ready configurations.',
    '/usr/share/weir/faults/scenarios': 'Scenarios for weir-faults.',
    '/usr/share/doc/weir': 'The pages of the documentation, and weir.schema.json of the configuration.',
}
# A name alone between quotes is a variable's; others are read by functions that say so.
READ = re.compile(r'''["'](WEIR_[A-Z0-9_]*[A-Z0-9])["']|(?:getenv|os\.environ\.get)\(["'](\w+)["']|\bX\("([A-Z_]+)", "([A-Z_]+)", "''')
OTHERS = {'ASAN_OPTIONS', 'CPP_COMMAND', 'WEIR_BENCH_ABOUT'}  # of builds; of weir-bench for its scripts


def variables_read(root):
    """{variable: [folders whose files read it]}."""
    found = {}
    for top in ('apps', 'ctrl', 'ppe', 'pktbuf', 'configs/pktgen'):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(('.c', '.h', '.py', '.lua')) or '.' not in name:
                    path = os.path.join(folder, name)
                    with open(path, errors='replace') as file:
                        read = {word for words in READ.findall(file.read()) for word in words
                                if word and not word.startswith('WEIR_SETTING_')} - OTHERS
                    for variable in read:
                        found.setdefault(variable, set()).add(os.path.relpath(path, root))
    return found


def variables(root):
    """{group: [(names, text, readers)]}."""
    with open(os.path.join(root, 'apps', 'mpi', 'offload.h')) as file:
        mpi = dict(re.findall(r'"(WEIR_MPI_\w+)", \w+,\s*\\?\s*"([^"]*)"', file.read()))
    groups = {**VARIABLES, 'MPI programs': {name: text + '.' for name, text in mpi.items()}}
    told = {name for texts in groups.values() for names in texts for name in names.split()}
    read = variables_read(root)
    for name in sorted(told ^ set(read)):
        sys.exit('docs/man7.py: %s: %s' % (name, 'no source reads it' if name in told else
                                           'needs a text: %s reads it' % ', '.join(sorted(read[name]))))
    made = {}
    for group, texts in groups.items():
        made[group] = []
        for names, text in texts.items():
            paths = {path for name in names.split() for path in read[name]}
            by = sorted({next((who for place, who in READERS if path.startswith(place)), path) for path in paths})
            made[group].append((names.split(), text, ', '.join(by)))
    return made


def markdown(root):
    """docs/environment.md; ctrl/document/update.py writes it."""
    made = ['# Environment variables', '', 'For users and operators: every variable that a program or plug-in of Weir reads. An empty variable counts as not set.',
            'libweir ignores all of them in a set-user-ID program. `make keys` generates this page from the source of `weir(7)`.']
    for group, rows in variables(root).items():
        readers = {by for _, _, by in rows}
        alone = len(readers) == 1
        made += ['', '## ' + group, *(['', 'Read by %s.' % readers.pop()] if alone else []), '',
                 '| variable | meaning |' + ' read by |' * (not alone), '| --- | --- |' + ' --- |' * (not alone)]
        made += ['| %s | %s |' % (', '.join('`%s`' % name for name in names), text) + ' %s |' % by * (not alone)
                 for names, text, by in rows]
    return '\n'.join(made) + '\n'


def items(rows):
    """The items of a list: [(mdoc of the tag, text)]."""
    return '\n'.join('.It %s\n%s' % (tag, '\n'.join(prose(text))) for tag, text in rows)


def sentence(text):
    return text[0].upper() + text[1:] + '.'


def statuses(root):
    with open(os.path.join(root, 'apps', 'report', 'options.h')) as file:
        found = re.findall(r'\bX\((?:[A-Z]+), (\d+), "(.*)"\)', file.read())
    return items((value, sentence(text)) for value, text in found)


def page(root, date):
    rows = [row for group in variables(root).values() for row in group]
    told = items(('Ev ' + ' , '.join(names), '%s Read by %s.' % (text, by)) for names, text, by in rows)
    return PAGE % {'date': escape(date), 'statuses': statuses(root), 'variables': told,
                   'files': items(('Pa ' + name, text) for name, text in FILES.items())}


if __name__ == '__main__':
    if len(sys.argv) == 2:
        page(sys.argv[1], '')
        sys.exit(0)
    with open(sys.argv[3], 'w') as made:
        made.write(page(sys.argv[1], sys.argv[2]))
