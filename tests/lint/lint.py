#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The house rules that a program can check. Prints TAP.

    lint.py ROOT BUILD [CHECK...]

ROOT is the tree to look at, BUILD a configured build directory (its compile_commands.json says
with which warnings the project compiles). Without CHECK, all of them run.
"""
import json
import os
import re
import shutil
import subprocess
import sys

ROOMS = ['pktbuf', 'hashengine', 'rmw', 'ppe', 'ctrl', 'apps']
MAY_INCLUDE = {
    'pktbuf': {'pktbuf'},
    'hashengine': {'hashengine'},
    'rmw': {'rmw', 'pktbuf/wire'},  # the lists of types and operations, which need no DPDK
    'ppe': {'ppe', 'pktbuf', 'hashengine', 'rmw'},
    'ctrl': {'ctrl', 'ppe', 'pktbuf', 'hashengine', 'rmw'},
    'apps': {'apps', 'ctrl', 'ppe', 'pktbuf', 'hashengine', 'rmw'},
}
# Within rooms: (files, what they may include of the project, why not more).
WITHIN = [
    (r'^ppe/(?!collective/|programs/)', r'^(?!ppe/(collective|programs)/)', 'the engine knows no program'),
    (r'^ppe/collective/membership/', r'^(?!ppe/collective/(block/(?!block_priv)|tree/))', 'membership is below blocks and trees'),
    (r'^ppe/collective/block/', r'^(?!ppe/collective/tree/)', 'blocks are below trees: struct tree_ops'),
    (r'^apps/libweir/', r'^(apps/libweir|pktbuf/wire)/', 'the library and its tools include nothing else of the project'),
    (r'^apps/verify/', r'^(apps/verify/|apps/libweir/weir\.h$|pktbuf/wire/)', 'the check shares nothing with what it checks'),
    (r'^apps/perf/', r'^(apps/perf|apps/libweir|apps/report|apps/verify|pktbuf/wire)/', 'the library and its tools include nothing else of the project'),
    (r'^apps/libweir/(?!(weir|request|generation|window|outbox|unexpected|progress|loop)\.c$)', r'^(?!apps/libweir/engine\.h$)',
     "the library's helpers know nothing of its engine"),
    (r'^ctrl/(config/|log\.)', r'^(?!ctrl/(?!config/|log\.h))', 'the configuration is below jobs, statistics and API'),
    (r'^ctrl/jobs/', r'^(?!ctrl/(stats|api)/)', 'jobs are below statistics and API'),
    (r'^ctrl/stats/', r'^(?!ctrl/api/)', 'statistics are below the API'),
]
# The functions that a room's headers declare begin with one of the room's nouns.
NOUNS = {
    'ppe/collective/block': 'block|flow|order|partial|slot|timeout',
    'ppe/collective/membership': 'announce|generation|hop|join|keys|reply|source',
    'ppe/collective/tree': 'child|parent|parents',
}
# Where no line is longer than 100 columns, comments included.
NARROW = r'^(ppe|ctrl|pktbuf|rmw|hashengine|apps/libweir)/'
DATA_PLANE = ['pktbuf', 'hashengine', 'rmw', 'ppe']
LINES_MAX = 800

# (where, what, why). `where` is a path pattern; the pattern is looked for in code, without its
# comments and strings.
FORBIDDEN = [
    (r'^(pktbuf|hashengine|rmw|ppe|ctrl)/.*\.[ch]$',
     r'\b(exit|_exit|_Exit|quick_exit|abort|rte_exit|rte_panic|RTE_VERIFY)\s*\(',
     'only apps may end the process'),
    (r'^apps/libweir/.*\.[ch]$',
     r'\b(exit|_exit|_Exit|quick_exit|pthread_exit|thrd_exit|abort|assert|assert_perror|v?errx?|error|error_at_line|raise|'
     r'p?t?g?kill|pthread_kill|longjmp|exec[lv]p?e?|fexecve|__builtin_trap|__builtin_unreachable|__assert_fail)\s*\(',
     'a library does not end its program'),
    (r'^(pktbuf|hashengine|rmw|ppe)/.*\.[ch]$',
     r'\bjson_[a-z_]+\s*\(|\bjson_t\b',
     'JSON stays in ctrl and apps'),
    (r'^(pktbuf|hashengine|rmw|ppe)/.*\.[ch]$',
     r'\bpthread_(mutex|spin|rwlock|cond)_?\w*|\bsem_wait\b|\brte_(spinlock|rwlock|ticketlock|mcslock|'
     r'seqlock|seqcount)\w*|\b__sync_\w+|\batomic_(fetch|compare|exchange)\w*|'
     r'\b__atomic_(fetch|add|sub|and|or|xor|nand|compare|exchange|test_and_set)\w*|'
     r'\brte_atomic\d+_(add|sub|inc|dec|cmpset|exchange|test|clear)\w*',
     'no lock and no atomic read-modify-write in the data plane'),
    (r'^(apps/libweir|pktbuf/wire)/.*\.[ch]$', r'\brte_\w+', 'what hosts build knows no DPDK'),
    (r'_fast\.h$',
     r'\b(malloc|calloc|realloc|free|rte_malloc\w*|rte_zmalloc\w*|rte_free)\s*\(',
     'a _fast.h neither allocates nor frees'),
    (r'_fast\.h$', r'\b(RTE_LOG\w*|rte_log|v?f?printf|puts|perror|syslog)\s*\(',
     'a _fast.h does not log'),
    (r'_fast\.h$',
     r'\b(rte_rdtsc\w*|rte_get_(tsc|timer)_cycles|clock_gettime|gettimeofday|time)\s*\(',
     'a _fast.h does not read a clock: pass now'),
    (r'_fast\.h$', r'\b(json_\w+|usleep|nanosleep|sched_yield|read|write|send|recv)\s*\(',
     'a _fast.h makes no system call and knows no JSON'),
]
FORBIDDEN_INCLUDES = [
    (r'^(pktbuf|hashengine|rmw|ppe)/', r'jansson\.h', 'JSON stays in ctrl and apps'),
    (r'^(apps/libweir|pktbuf/wire)/', r'rte_\w+\.h', 'what hosts build knows no DPDK'),
]
# Facts with one list each: (a word that stands for the list, where it may be named, the list). A new file that
# names it has a copy of the list; take what it needs from the list.
LISTS = [
    (r'bf16', r'^(pktbuf/wire/types\.h|apps/python/weir/(_abi|torch)\.py|rmw/kernels\w*\.[ch]|apps/bench/kernels_loops\.c)$', 'types: pktbuf/wire/types.h'),
    (r'allgather', r'^(pktbuf/wire/types\.h|apps/libweir/(geometry\.h|request\.c|weir\.h)|'
     r'apps/verify/verify\.h|apps/python/.*|apps/(compare|mpi)/.*)$', 'collectives: pktbuf/wire/types.h'),
    (r'dead_after_ms', r'^(ctrl/config/job_settings\.h|pktbuf/wire/settings\.h|ppe/(jobs|ppe)\.h|ppe/collective/(membership/announce|block/timeout|tree/parent_join)\.c|ctrl/api/diagnosis\.c|'
     r'apps/(ctl/tree\.c|rack/tree\.py)|apps/libweir/(control_json\.c|weir\.h)|apps/stragglers/stragglers\.py)$',
     'settings of a job: ctrl/config/job_settings.h'),
]
# Spelled apart, so that this file passes its own check.
LEFT_OPEN = re.compile(r'\b(%s)\b' % '|'.join(['TO' + 'DO', 'FIX' + 'ME', 'X' * 3]))


class Tree:
    """The files of a source tree, without build directories."""

    def __init__(self, root, build):
        self.root, self.build = root, build
        self.files = []
        for folder, names, files in os.walk(root):
            names[:] = sorted(n for n in names
                              if n not in ('.git', '__pycache__') and not n.startswith('build'))
            for name in sorted(files):
                self.files.append(os.path.relpath(os.path.join(folder, name), root))

    def read(self, path):
        with open(os.path.join(self.root, path), errors='replace') as file:
            return file.read()

    def address(self, path, target):
        """What an include line of a file names; an example, which is copied out of the tree, includes what is beside it."""
        beside = os.path.join(os.path.dirname(path), target)
        return beside if path.startswith('docs/examples/') and beside in self.files else target

    def sources(self, *ends):
        return [f for f in self.files if f.endswith(ends)]


def strip(text, strings=True):
    """C source without comments and, if so wanted, string contents, on the same lines."""
    def blank(match):
        word = match.group(0)
        if word.startswith('/'):
            return re.sub(r'[^\n]', ' ', word)
        return word[0] + word[-1] if strings else word
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def line_of(text, place):
    return text.count('\n', 0, place) + 1


def room_of(path):
    return path.split(os.sep)[0]


def c_flags(tree):
    """The flags that the project compiles with: warnings and defines of the build, and includes."""
    flags = ['-std=gnu11', '-Werror']
    commands = os.path.join(tree.build, 'compile_commands.json')
    if os.path.exists(commands):
        with open(commands) as file:
            entries = json.load(file)
        if entries:
            flags += [w for w in entries[0]['command'].split()
                      if w.startswith(('-W', '-D')) and not w.startswith('-Wl,')]
    config = subprocess.run(['pkg-config', '--cflags', 'libdpdk', 'libbsd', 'jansson',
                             'criterion'], check=True, stdout=subprocess.PIPE, text=True)
    for word in config.stdout.split():
        if word.startswith('-I'):
            flags += ['-isystem', word[2:]]
        else:
            flags.append(word)
    return flags + ['-I', tree.root]


def mpi_flags():
    """Where an MPI has its headers; None: none is installed."""
    for name in ('ompi-c', 'mpich'):
        found = subprocess.run(['pkg-config', '--cflags-only-I', name], check=False, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
        if found.returncode == 0:
            return found.stdout.replace('-I', '-isystem ').split()
    return None


def compiles(command, path):
    code = '#include "%s"\n' % path
    done = subprocess.run(command + ['-'], input=code, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return [] if done.returncode == 0 else done.stdout.splitlines()[:20]


def compiled_first(tree):
    """Headers that a source of the build, which compiles, includes before anything else, or such a header does."""
    try:
        with open(os.path.join(tree.build, 'compile_commands.json')) as file:
            entries = json.load(file)
    except OSError:
        return set()
    sources = {os.path.relpath(os.path.join(tree.build, e['directory'], e['file']), tree.root) for e in entries}
    proven, more = set(), sources & set(tree.files)
    while more:
        first = [(path, re.match(r'\s*(?:#pragma once\s+|#ifndef \w+\s+#define \w+\s+)?#include "([^"]+)"',
                                 strip(tree.read(path), strings=False))) for path in more]
        more = {tree.address(path, found.group(1)) for path, found in first if found} - proven
        proven |= more
    return proven


def check_headers(tree):
    """Each header compiles alone"""
    flags, mpi, proven = c_flags(tree), mpi_flags(), compiled_first(tree)
    for path in tree.sources('.h'):
        of_mpi = path.startswith(('apps/mpi/', 'tests/functional/mpi/', 'tests/unit/fake_mpi'))
        if of_mpi and mpi is None:
            continue
        yield path, [] if path in proven else compiles(
            ['gcc', '-fsyntax-only', '-x', 'c'] + flags + (mpi if of_mpi else []), path)
        if path in ('apps/libweir/weir.h', 'pktbuf/wire/types.h'):
            yield path + ' as C++', compiles(
                ['g++', '-std=c++17', '-Wall', '-Wextra', '-Werror', '-fsyntax-only', '-x', 'c++',
                 '-I', tree.root], path)


def check_format(tree):
    """The C sources are as clang-format leaves them (make format)"""
    sources = tree.sources('.c', '.h')
    found = []
    for i in range(0, len(sources), 50):
        done = subprocess.run(['clang-format', '--dry-run', '-Werror', *sources[i:i + 50]], cwd=tree.root,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            found += re.findall(r'^.*: error: .*$', done.stdout, re.M) or [done.stdout]
    yield 'clang-format', found
    yield 'lines of at most 100 columns', [
        '%s:%d' % (path, number) for path in sources if re.search(NARROW, path)
        for number, line in enumerate(tree.read(path).splitlines(), 1) if len(line.expandtabs(8)) > 100]


def check_includes(tree):
    """Include lines are addresses from the root, and point one way"""
    outward, address, own, system, within = [], [], [], [], []
    for path in tree.sources('.c', '.h'):
        text = tree.read(path)
        first = None
        for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.M):
            where = '%s:%d' % (path, line_of(text, match.start()))
            kind, target = match.groups()
            target = tree.address(path, target)
            first = first or target
            for pattern, name, why in FORBIDDEN_INCLUDES:
                if re.search(pattern, path) and re.search(name, target):
                    system.append('%s: %s: %s' % (where, target, why))
            if kind == '<':
                continue
            for pattern, may, why in WITHIN:
                if re.search(pattern, path) and not re.search(may, target):
                    within.append('%s: %s: %s' % (where, target, why))
            if not os.path.exists(os.path.join(tree.root, target)):
                address.append('%s: %s is not a path from the root' % (where, target))
            allowed = MAY_INCLUDE.get(room_of(path))
            if allowed is not None and not allowed & {room_of(target), os.path.dirname(target)}:
                outward.append('%s: %s must not include %s' % (where, room_of(path), target))
        header = path[:-2] + '.h'
        if path.endswith('.c') and header in tree.files and first != header:
            own.append('%s: includes %s before its own header' % (path, first))
    alien = []
    for path in tree.sources('.h'):
        nouns = NOUNS.get(os.path.dirname(path))
        # A declaration's name follows its type, a definition's has a line of its own.
        text = tree.read(path) if nouns else ''
        for match in re.finditer(r'^(?!static_assert)(?:[a-z][^\n;{}()=]*[ *])?(\w+)\(', text, re.M):
            if not re.match(r'(%s)_' % nouns, match.group(1) + '_'):
                alien.append('%s: %s begins with none of %s' % (path, match.group(1), nouns))
    yield 'functions of a room begin with its nouns', alien
    yield 'include directions', outward
    yield 'parts of a room include what they may', within
    yield 'include lines are paths from the root', address
    yield 'own header first', own
    yield 'system headers where they belong', system


def check_tokens(tree):
    """Words that must not be written"""
    for where, what, why in FORBIDDEN:
        found = []
        for path in tree.sources('.c', '.h'):
            if re.search(where, path):
                code = strip(tree.read(path))
                for match in re.finditer(what, code):
                    found.append('%s:%d: %s' % (path, line_of(code, match.start()),
                                                match.group(0).strip()))
        yield why, found
    found = []
    for path in tree.sources('.c', '.h', '.py', '.js'):
        text = re.sub(r'/\*.*?\*/', '', tree.read(path), flags=re.S) if room_of(path) in ROOMS else ''
        for word, where, what in LISTS:
            if re.search(r'\b%s\b' % word, text, re.I) and not re.search(where, path):
                found.append('%s names %s, the only list of %s' % (path, word, what))
    yield 'one list of each fact', found
    found = []
    for path in tree.files:
        if path.endswith(('.c', '.h', '.py', '.md', '.sh', '.json', 'meson.build', 'Makefile')):
            text = tree.read(path)
            for match in LEFT_OPEN.finditer(text):
                found.append('%s:%d: %s' % (path, line_of(text, match.start()), match.group(0)))
    yield 'nothing is left open', found


def check_files(tree):
    """Length, licence and line ends of the sources"""
    long, unmarked, ends = [], [], []
    for path in tree.files:
        script = '.' not in os.path.basename(path) and tree.read(path).startswith('#!')
        if not script and not path.endswith(('.c', '.h', '.py', '.sh', 'meson.build', 'Makefile')):
            continue
        text = tree.read(path)
        lines = text.count('\n')
        if lines > LINES_MAX:
            long.append('%s: %d lines, at most %d' % (path, lines, LINES_MAX))
        if not path.endswith('meson.build') and \
                'SPDX-License-Identifier: BSD-3-Clause' not in '\n'.join(text.split('\n')[:3]):
            unmarked.append('%s: no SPDX line' % path)
        if '\r' in text or re.search(r'[ \t]+$', text, re.M) or (text and text[-1] != '\n'):
            ends.append('%s: carriage return, blanks at a line end, or no last line end' % path)
    yield 'no source over %d lines' % LINES_MAX, long
    yield 'every source names its licence', unmarked
    yield 'line ends', ends


def anchors(text):
    """The fragments that a page's headings answer to, as code hosts make them."""
    found, seen = set(), {}
    text = re.sub(r'^```.*?^```', '', text, flags=re.S | re.M)
    for heading in re.findall(r'^#+\s+(.+?)\s*#*$', text, re.M):
        heading = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading)
        slug = re.sub(r'[^\w\- ]', '', heading.lower()).replace(' ', '-')
        again = seen.get(slug, 0)
        seen[slug] = again + 1
        found.add(slug + ('-%d' % again if again else ''))
    return found


def missing_cases(tree, row):
    """A row's test cases, as in "no: `a_case`, `another`", that no file of its last cell has."""
    cells = row.strip('| ').split(' | ')
    files = [tree.read(path) for path in re.findall(r'`(tests/[\w./-]+)`', cells[-1])
             if os.path.isfile(os.path.join(tree.root, path))]
    names = [name for names in re.findall(r': ((?:`\w+`(?:, )?)+)', ' | '.join(cells[1:-1]) if files else '')
             for name in re.findall(r'\w+', names)]
    return [name for name in names if not any(re.search(r'\b%s\(' % name, text) for text in files)]


def most_of(shape, key):
    """The most that the JSON Schema of the configuration allows for a key, such as jobs[].window."""
    for part in key.replace('[]', '.[]').split('.'):
        shapes = [shape, *shape.get('anyOf', [])]
        shape = next((s['items'] if part == '[]' else s['properties'][part] for s in shapes
                      if (part == '[]' and 'items' in s) or part in s.get('properties', {})), {})
    return next((shape[word] for word in ('maximum', 'maxItems', 'maxLength') if word in shape), max(shape.get('enum', [0])))


def wrong_limits(tree):
    """Rows of docs/limits.md, "| what | number | `macro` in `header` |" or "| ... | `key` |", whose number is another there."""
    if 'docs/limits.md' not in tree.files:
        return
    code, schema = '', json.loads(tree.read('docs/weir.schema.json'))
    for row in re.findall(r'^\| (?!---|what ).*', tree.read('docs/limits.md'), re.M):
        found = re.fullmatch(r'\| .* \| (\d+) \| `([^`]+)`(?: in `([^`]+)`)? \|', row)
        if found is None or not found.group(3) and most_of(schema, found.group(2)) != int(found.group(1)):
            yield row
        elif found.group(3):
            code += '#include "%s"\n_Static_assert((%s) == %s, "%s");\n' % (
                found.group(3), found.group(2), found.group(1), row.replace('"', ''))
    done = subprocess.run(['gcc', '-fsyntax-only', '-x', 'c', *c_flags(tree), '-'], input=code, text=True, cwd=tree.root,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    yield from [line for line in done.stdout.splitlines() if 'error: ' in line]


def check_docs(tree):
    """Links between pages lead somewhere"""
    found, named, cases = [], [], []
    for path in tree.sources('.md'):
        text = re.sub(r'^```.*?^```', lambda m: re.sub(r'[^\n]', ' ', m.group(0)),
                      tree.read(path), flags=re.S | re.M)
        for match in re.finditer(r'\]\(([^)\s]+)(?:\s+"[^"]*")?\)', text):
            target = match.group(1)
            where = '%s:%d' % (path, line_of(text, match.start()))
            if re.match(r'[a-z]+:', target):
                continue
            page, _, fragment = target.partition('#')
            full = os.path.normpath(os.path.join(os.path.dirname(path), page)) if page else path
            if not os.path.exists(os.path.join(tree.root, full)):
                found.append('%s: %s does not exist' % (where, target))
            elif fragment and full.endswith('.md') and fragment not in anchors(tree.read(full)):
                found.append('%s: %s has no heading #%s' % (where, full, fragment))
        # A source file that a page names in `code` exists.
        rooms = '|'.join(ROOMS + ['tests', 'configs', 'docs'])
        for match in re.finditer(r'`((?:%s)/[\w./-]+\.(?:c|h|py|json|md))`' % rooms, text):
            if not os.path.exists(os.path.join(tree.root, match.group(1))):
                named.append('%s:%d: %s does not exist' % (path, line_of(text, match.start()),
                                                           match.group(1)))
        for match in re.finditer(r'^\|.*\|$', text, re.M):
            for name in missing_cases(tree, match.group(0)):
                cases.append('%s:%d: no test case %s' % (path, line_of(text, match.start()), name))
    yield 'relative links', found
    yield 'files that pages name', named
    yield 'test cases that tables name', cases
    yield 'numbers of docs/limits.md', list(wrong_limits(tree))


def check_types(tree):
    """The Python package is typed; without mypy nothing is checked"""
    if shutil.which('mypy'):
        done = subprocess.run(['mypy', '--cache-dir', os.path.join(tree.build, 'mypy'), '-p', 'weir'], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False, cwd=os.path.join(tree.root, 'apps/python'))
        yield 'mypy', done.stdout.splitlines() if done.returncode else []


CHECKS = {
    'headers': check_headers,
    'format': check_format,
    'includes': check_includes,
    'tokens': check_tokens,
    'files': check_files,
    'docs': check_docs,
    'types': check_types,
}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tree = Tree(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    number = failed = 0
    for name in sys.argv[3:] or CHECKS:
        for case, found in CHECKS[name](tree):
            number += 1
            failed += bool(found)
            print('%sok %d - %s: %s' % ('not ' if found else '', number, name,
                                        case.replace('#', '')))
            for line in found:
                print('# %s' % line)
    print('1..%d' % number)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
