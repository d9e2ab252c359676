# SPDX-License-Identifier: BSD-3-Clause
"""docs/sizing.md and docs/benchmarks.md against the programs: keys, counters, benches and options that they name exist;
the plans in docs/sizing.md and docs/tree.md are what weir-bench prints.

usage: test_sizing_doc.py ROOT weir-switch weir-bench weir-perf
"""
import re
import subprocess
import sys

ROOT, SWITCH, BENCH, PERF = sys.argv[1:5]
TABLE = '## From symptom to setting'
ROWS = 15  # the table has at least so many
COMMANDS = 15  # and the pages name at least so many


def read(name):
    with open('%s/%s' % (ROOT, name)) as file:
        return file.read()


def output(*argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, (argv, done.stdout)
    return done.stdout


PAGE = read('docs/sizing.md')
BENCHES = read('docs/benchmarks.md')


def section(heading):
    found = re.search(r'^%s\n(.*?)(?=^## |\Z)' % re.escape(heading), PAGE, re.M | re.S)
    assert found, 'docs/sizing.md has no heading "%s"' % heading
    return found.group(1)


def quoted(text):
    return re.findall(r'`([^`\n]+)`', text)


def rows():
    """The cells of each row of the table, without its head."""
    lines = [line for line in section(TABLE).splitlines() if line.startswith('|')]
    made = [[cell.strip() for cell in re.split(r'(?<!\\)\|', line)[1:-1]] for line in lines[2:]]
    assert len(made) >= ROWS, 'only %d rows' % len(made)
    assert all(len(row) == 4 and all(row) for row in made), 'a row has not four cells with text'
    return made


def keys_exist():
    known = set(re.findall(r'^\| `([^`]+)` ', output(SWITCH, '--keys'), re.M))
    first = {key.split('.')[0].split('[')[0] for key in known}
    drivers = read('docs/configuration.md')
    for row in rows():
        settings = quoted(row[1])
        assert settings, 'no setting in "%s"' % row[1]
        # Drivers and their arguments, as `framecnt=`, are no keys; docs/configuration.md has them.
        named = [word for word in settings
                 if re.fullmatch(r'[a-z_\[\].]+', word) and not word.startswith('net_')]
        assert named, 'no key in "%s"' % row[1]
        for word in named:
            assert word in known, 'docs/sizing.md: no such key: %s' % word
        for word in settings:
            if re.fullmatch(r'[a-z]+=\w*|net_\w+', word):
                assert word.split('=')[0] in drivers, 'no such argument: %s' % word
    # Anywhere else, what looks like a key is one.
    for word in quoted(PAGE) + quoted(BENCHES):
        if re.fullmatch(r'[a-z_]+(\[\])?(\.[a-z_]+(\[\])?)+', word) and \
                word.split('.')[0].split('[')[0] in first:
            assert word in known, 'docs/sizing.md: no such key: %s' % word


def counters_exist():
    known = set(quoted(read('docs/counters.md')))
    read_table = [line.split('|')[1] for line in section('## Reading the counters').splitlines()
                  if line.startswith('| `')]
    assert read_table, 'no counters are read'
    for cell in [row[0] for row in rows()] + read_table:
        for word in quoted(cell):
            assert word in known, 'docs/sizing.md: no such counter: %s' % word


def options_of(*argv):
    return set(re.findall(r'(?<![\w-])(--?[A-Za-z][\w-]*)', output(*argv, '--help')))


def commands_exist():
    """Every `weir-... --option` in the pages, also in fenced blocks, is known to its --help."""
    text = PAGE + BENCHES
    code = quoted(text) + re.findall(r'^```\w*\n(.*?)^```', text, re.M | re.S)
    benches = set(re.findall(r'^  (\w+) ', output(BENCH, '--help'), re.M))
    named = 0
    for line in '\n'.join(code).splitlines():
        words = line.replace('build/apps/bench/', '').replace('build/apps/perf/', '').split()
        if not words or words[0] not in ('weir-bench', 'weir-perf', 'weir-switch'):
            continue
        options = [w for w in words[1:] if re.match(r'--?[A-Za-z]', w)]
        if words[0] == 'weir-bench':
            assert len(words) > 1 and words[1] in benches, 'no such bench: %s' % line
            known = options_of(BENCH, words[1])
            if words[1] == 'pair':  # what follows the builds
                known |= options_of(BENCH, 'engine')
        else:
            known = options_of(PERF if words[0] == 'weir-perf' else SWITCH)
        for option in options:
            assert option in known, 'no option %s: %s' % (option, line)
        named += 1
    assert named >= COMMANDS, 'only %d commands were found' % named


def same(shown, now):
    """Line by line and word by word; numbers within 2 %, because memory depends on the sizes of structures."""
    def alike(a, b):
        numbers = [re.fullmatch(r'\d+(\.\d+)?', word) for word in (a, b)]
        return a == b or (all(numbers) and abs(float(a) - float(b)) <= 0.02 * float(b))

    one, other = ([line.split() for line in text.splitlines()] for text in (shown, now))
    return [len(line) for line in one] == [len(line) for line in other] and all(
        alike(a, b) for line, match in zip(one, other) for a, b in zip(line, match))


def plans_are_as_printed():
    """What pages show of `weir-bench plan` is what it prints."""
    for page, least in (('docs/sizing.md', 1), ('docs/tree.md', 1)):
        shown = re.findall(r'^<!-- weir-bench plan -->\n```\nbuild/apps/bench/weir-bench (.*)\n((?:.*\n)*?)```', read(page), re.M)
        assert len(shown) >= least, '%s shows no plan' % page
        for command, lines in shown:
            now = '\n'.join(line.rstrip() for line in output(BENCH, *command.split()).splitlines()) + '\n'
            assert same(lines, now), '%s: %s prints now:\n%s' % (page, command, now)


for case in (keys_exist, counters_exist, commands_exist, plans_are_as_printed):
    case()
    print('ok', case.__name__, flush=True)
