#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Real MPI programs on four hosts, unmodified, with and without Weir: hpcc, LAMMPS, mpi4py, the tests of
ScaLAPACK and BLACS, and a Fortran program. What they print must be the same, but for times, and Weir must have run
the collectives that each case names. A program that is not installed skips its case; docs/mpi.md has their list; how its
settings are named is checked here."""
import contextlib
import difflib
import os
import re
import shutil
import subprocess
import tempfile

from tap import Skip, case, check, main
from mpi import mpirun, running

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SCALAPACK = '/usr/lib/x86_64-linux-gnu/scalapack/%s-tests/%s'
HOSTS = 4


def need(*paths):
    for path in paths:
        if not shutil.which(path) and not os.path.exists(path):
            raise Skip('%s is not installed (.ci/install packages.mpi)' % path)


def write(folder, name, text):
    with open(os.path.join(folder, name), 'w') as file:
        file.write(text)


# Lines that are left out: Weir's; what Fortran's runtime says at the end of a rank in which a denormal number came up, as MPI
# adds there and Weir does not; CPU times, which hpcc prints where they are not 0; and a race of mpirun.
LEFT_OUT = re.compile(r'weir: |Note: The following floating-point exceptions are signalling:|CPU |'
                      r'\[.*\] plm:[rs]sh: Warning: setpgid')


# BLACS' warnings, which libraries write in pieces, with those of other ranks between them.
PIECE = re.compile(r"(BLACS WARNING '|BLACS/SRC/)")


def masked(text, pattern):
    """Lines of a text. Numbers in those that match the pattern are times, or come of them."""
    lines = []
    for line in PIECE.sub(r'\n\1', text).splitlines():
        if LEFT_OUT.match(line):
            continue
        if re.search(pattern, line, re.I):
            line = re.sub(r'\b\d[\d.]*(e[-+]?\d+)?', 'N', line, flags=re.I)
        lines.append(' '.join(line.split()))
    return lines


def differences(one, other):
    return [line for line in difflib.unified_diff(one, other, lineterm='', n=0) if not line.startswith(('---', '+++', '@@'))]


NEVER = r'(?!)'


class Program:
    """A program on a rack of four hosts, with MPI's own network beside Weir's."""

    def __init__(self, words, files=(), result=None, times=NEVER, order=True, mpi='openmpi'):
        self.words, self.files, self.result, self.times = words, files, result, times
        self.order, self.mpi = order, mpi
        self.exact = []  # what each run wrote into a file of this name, if it did

    def run(self, rack, weir=None, settings=None):
        """Returns the lines that it printed, and by rank and collective how many ran on Weir. Fills `exact`."""
        folder = os.path.join(rack.folder, 'run-%d' % len(os.listdir(rack.folder)))
        os.mkdir(folder)
        for name, text in self.files:
            write(folder, name, text)
        run = mpirun(rack, ['env', '-C', folder] + self.words, hosts=HOSTS, mpi=self.mpi, weir=weir,
                     settings=settings)
        text = run.output
        for line in text.splitlines():
            if 'no answer' in line:
                print('# not opened: %s' % line)
        if self.result:
            with open(os.path.join(folder, self.result)) as file:
                text = file.read()
        with contextlib.suppress(FileNotFoundError), open(os.path.join(folder, 'exact')) as file:
            self.exact.append(file.read())
        lines = masked(text, self.times)
        return lines if self.order else sorted(lines), {
            rank: report['offloaded'] for rank, report in run.reports.items()}

    def compare(self, least, ways=('component',), settings=None):
        """Without Weir, and in these ways with it. least: {collective: so many at least run on Weir on each rank}."""
        need('mpirun.' + self.mpi)
        if not os.path.exists(os.path.join(os.environ['WEIR_BUILD'], 'apps', 'mpi', 'pmpi', 'libweir-mpi-%s.so' % self.mpi)):
            raise Skip('the plug-in is not built: no headers of %s (.ci/install packages.mpi)' % self.mpi)
        with running(HOSTS) as rack:
            plain, offloaded = self.run(rack)
            check(not offloaded, 'offloaded without Weir: %s', offloaded)
            for way in ways:
                lines, offloaded = self.run(rack, way, settings)
                wrong = differences(plain, lines)
                check(not wrong, '%s prints with Weir (%s):\n%s', self.words[0], way, '\n'.join(wrong[:10]))
                check(len(offloaded) == HOSTS, 'reports of ranks %s', sorted(offloaded))
                for rank, found in offloaded.items():
                    for name, count in least.items():
                        check(found[name] >= count, '%s: rank %d: %d x %s on Weir, not %d at least: %s', way, rank,
                              found[name], name, count, found)
                print('# %s: %s' % (way, offloaded[0]))
            return lines


HPL_DAT = '''HPLinpack benchmark input file
Innovative Computing Laboratory, University of Tennessee
HPL.out  output file name (if any)
8        device out
1        # of problems sizes (N)
64       Ns
1        # of NBs
16       NBs
0        PMAP process mapping
1        # of process grids (P x Q)
2        Ps
2        Qs
16.0     threshold
1        # of panel fact
2        PFACTs
1        # of recursive stopping criterium
4        NBMINs
1        # of panels in recursion
2        NDIVs
1        # of recursive panel fact.
1        RFACTs
1        # of broadcast
1        BCASTs
1        # of lookahead depth
1        DEPTHs
2        SWAP
64       swapping threshold
0        L1 in form
0        U  in form
1        Equilibration
8        memory alignment in double
##### This line (no. 32) is ignored (it serves as a separator). ######
0        Number of additional problem sizes for PTRANS
100      values of N
0        number of additional blocking sizes for PTRANS
40       values of NB
'''
HPL_TIMES = (r'time|^Computing|^Inverse|^Tuning|^Generation|sec\b|secs\b|seconds|/s\b|latency|ping|clock|residual:|selected|'
             r'^(WALL|CPU|WR|Copy|Scale|Add|Triad)|^\w+_(GUPs|[GT]flops|GBs|GBytes|usec|Copy|Scale|Add|Triad)=')


@case
def the_page_has_all_settings():
    """A parameter is named as its variable, as docs/mpi.md says. docs/environment.md is made of the list (ctrl_keys)."""
    with open(os.path.join(ROOT, 'apps', 'mpi', 'offload.h')) as file:
        found = re.search(r'#define OFFLOAD_SETTING_LIST\(X\)(.*?)\n\n', file.read(), re.S).group(1)
    rows = re.findall(r'X\(\w+,\s*"(\w+)",\s*"(\w+)",\s*\w+,\s*"[^"]*"\)', found.replace('\\', ' '))
    check(len(rows) == found.count('X(') > 5, 'rows: %s', rows)
    with open(os.path.join(ROOT, 'docs', 'mpi.md')) as file:
        page = re.search(r'^## Settings\n(.*?)^## ', file.read(), re.M | re.S).group(1)
    for name, variable in rows:
        check(variable == 'WEIR_MPI_' + name.upper() or (variable == 'WEIR_' + name.upper() and '`%s`' % variable in page), '%s', name)


@case
def hpcc():
    need('hpcc')
    Program(['hpcc'], [('hpccinf.txt', HPL_DAT)], 'hpccoutf.txt', HPL_TIMES).compare(
        {'allreduce': 500, 'bcast': 200, 'barrier': 50, 'reduce': 40, 'alltoall': 3})


MELT = '''units lj
lattice fcc 0.8442
region box block 0 4 0 4 0 4
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 10
fix 2 all print 10 "$(temp:%.17g) $(pe:%.17g) $(etotal:%.17g) $(press:%.17g)" file exact screen no
run 100
'''


@case
def lammps_in_a_deterministic_job():
    """All that it prints is as without Weir, and two runs with Weir have the same bits."""
    need('lmp')
    program = Program(['lmp', '-in', 'in.melt', '-log', 'none'], [('in.melt', MELT)], None,
                      r' CPU|time\b(?! step)|performance|%|\|')
    lines = program.compare({'allreduce': 90, 'bcast': 25, 'barrier': 3, 'reduce': 3}, ('component', 'component'),
                            settings={'settings': 'deterministic=true'})
    _, one, other = program.exact
    check(len(one.splitlines()) > 10 and one == other, 'two runs differ:\n%s\n%s', one, other)
    check(sum(bool(re.fullmatch(r'\d+( -?\d[\d.]*){5}', line)) for line in lines) == 11, 'no thermodynamic output: %s',
          '\n'.join(lines))


@case
def mpi4py():
    need('mpirun.openmpi', '/usr/lib/python3/dist-packages/mpi4py', '/usr/lib/python3/dist-packages/numpy')
    Program(['/usr/bin/python3', os.path.join(HERE, 'mpi', 'program.py')]).compare(
        {'allreduce': 20, 'reduce': 14, 'bcast': 20, 'allgather': 5, 'alltoall': 4, 'gather': 100, 'scatter': 4,
         'reduce_scatter_block': 2, 'barrier': 4})


BT = """'BLACS on four hosts'
6
'blacstest.out'
'F'
'T'
'T'
'F'
5
'I' 'S' 'D' 'C' 'Z'
0
"""
COMB = """3
'+' '>' '<'
3
'R' 'C' 'A'
2
2
2
' ' 'H'
3
3 25 13
5 19 32
5 25 14
9 25 22
4 25 -1
3
0 -1 1
0 -1 0
2
2 4
2 1
"""
BSBR = """3
'R' 'C' 'A'
2
' ' 'I'
5
'G' 'U' 'U' 'L' 'L'
'E' 'U' 'N' 'U' 'N'
3
2 25 13
7 19 32
3 25 14
2 25 22
2
0 1
0 1
2
2 1
2 4
"""
BLACS = [('bt.dat', BT), ('comb.dat', COMB), ('bsbr.dat', BSBR)]


@case
def blacs():
    """Its broadcasts have other gaps on the sender than on the receivers."""
    tester = SCALAPACK % ('openmpi', 'xCbtest')
    need(tester)
    lines = Program([tester], BLACS, order=False).compare({'bcast': 300, 'reduce': 35, 'allreduce': 20})
    check('THERE WERE NO FAILURES IN THIS TEST RUN' in lines, '%s', lines[-10:])


@case
def blacs_in_fortran_by_mpich():
    tester = SCALAPACK % ('mpich', 'xFbtest')
    need('mpirun.mpich', tester)
    lines = Program([tester], BLACS, mpi='mpich', order=False).compare({'bcast': 300, 'reduce': 35, 'allreduce': 20},
                                                          ways=('preload',))
    check('THERE WERE NO FAILURES IN THIS TEST RUN' in lines, '%s', lines[-10:])


# Not square: for square matrices the tester also solves, and its PDGETRS fails at random on a busy machine, with and without
# Weir.
LU = """'LU factorization'
'4 hosts'
'LU.out'
6
2
131 57
120 50
1
8
1
9
1
3
2
2 4
2 1
1.0
T
"""


@case
def scalapack():
    tester = SCALAPACK % ('openmpi', 'xdlu')
    need(tester)
    lines = Program([tester], [('LU.dat', LU)], None, r'^WALL').compare({'bcast': 300, 'allreduce': 8})
    check('4 tests completed and passed residual checks.' in lines, '%s', lines[-10:])


def fortran(mpi, ways):
    compiler = 'mpifort.' + mpi
    need(compiler, 'mpirun.' + mpi)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'program')
        subprocess.run([compiler, '-O1', '-w', '-fallow-argument-mismatch', '-o', path,
                        os.path.join(HERE, 'mpi', 'program.f90')], check=True, timeout=120)
        Program([path], mpi=mpi, order=False).compare(
            {'allreduce': 200, 'bcast': 2, 'reduce': 3, 'gather': 2, 'scatter': 1, 'allgather': 1, 'alltoall': 1,
             'reduce_scatter_block': 1, 'barrier': 1}, ways)


@case
def fortran_by_open_mpi():
    fortran('openmpi', ('component', 'preload'))


@case
def fortran_by_mpich():
    fortran('mpich', ('preload',))


if __name__ == '__main__':
    main()
