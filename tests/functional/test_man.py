#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The manual pages: one for each program that is installed, with every option that its --help lists, and one for each
function of libweir, made from the header. And the reference."""
import glob
import os
import re
import shutil
import subprocess

from installed import BUILD, ROOT, call
from tap import Skip, case, check, main

PAGES = sorted(glob.glob(os.path.join(ROOT, 'docs', 'man', '*.[138]'))) + \
    [os.path.join(ROOT, 'apps', 'ctl', 'weirctl.1')] + sorted(glob.glob(os.path.join(BUILD, 'docs', '*.[357]')))
PROGRAMS = {
    'weir-switch.8': [os.path.join(BUILD, 'apps', 'switch', 'weir-switch')],
    'weir-perf.1': [os.path.join(BUILD, 'apps', 'perf', 'weir-perf')],
    'weir-capture.1': [os.path.join(BUILD, 'apps', 'capture', 'weir-capture')],
    'weir-bench.1': [os.path.join(BUILD, 'apps', 'bench', 'weir-bench')],
    'weirctl.1': [os.path.join(BUILD, 'apps', 'ctl', 'weirctl')],
    'weir-faults.1': ['python3', os.path.join(ROOT, 'apps', 'faults', 'weir-faults')],
    'weir-program.1': ['python3', os.path.join(ROOT, 'apps', 'program', 'weir-program')],
}


def read(path):
    with open(path) as file:
        return file.read()


def page(name):
    (path,) = [p for p in PAGES if os.path.basename(p) == name]
    return read(path).replace('\\-', '-')


def installed():
    """What `meson install` puts in place: {path: of the build or source}."""
    plan = subprocess.run(['meson', 'introspect', '--installed', BUILD], check=True, timeout=800,
                          stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r'"[^"]*": "([^"]*)"', plan)


@case
def each_program_has_a_page_with_its_options():
    paths = installed()
    programs = {os.path.basename(p) for p in paths if os.path.basename(os.path.dirname(p)) == 'bin'}
    check(programs == {re.sub(r'\.\d$', '', name) for name in PROGRAMS}, '%s', programs)
    for name, command in PROGRAMS.items():
        text = page(name)
        helps = [call(command + ['--help'])]
        if name == 'weir-bench.1':
            for bench in re.findall(r'^  ([a-z]\w*) ', helps[0], re.M):
                check('.Ss %s\n' % bench in text, '%s lacks %s', name, bench)
                told = call(command + [bench, '--help'])
                helps.append(re.search(r'Options of every bench:(.*?)\n\n', told, re.S).group(1))
        options = {o for told in helps for o in re.findall(r'(?<![\w-])--([a-z][\w-]*)', told)} - \
            {'option', 'help', 'usage'}
        check(len(options) >= (1 if name == 'weir-program.1' else 4), '%s: %s', name, options)
        missing = [o for o in sorted(options) if not re.search(r'Fl (?:\w , Fl |\w , )?-%s(?![\w-])|, -%s(?![\w-])' %
                                                              (o, o), text)]
        check(not missing, '%s lacks %s', name, missing)
        check('man%s/%s' % (name[-1], name) in ' '.join(paths), '%s is not installed', name)


def prototypes(header):
    """{function: its arguments, without blanks}, of the API."""
    text = re.sub(r'/\*.*?\*/', '', read(header), flags=re.S)
    found = re.findall(r'^WEIR_API ([^;(]*?)(weir_\w+)\(([^)]*)\);', text, re.M)
    check(len(found) >= 20, '%s', found)
    return {name: re.sub(r'\s', '', result + name + arguments) for result, name, arguments in found}


def synopsis(text):
    """The same of a page."""
    found = {}
    for result, name, arguments in re.findall(r'^\.Ft (.*)\n\.Fo (\w+)\n((?:\.Fa .*\n)+)', text, re.M):
        found[name] = re.sub(r'\s', '', result + name + ','.join(re.findall('"([^"]*)"', arguments)))
    return found


@case
def each_function_has_a_page_with_its_prototype():
    told, links = {}, set()
    for path in PAGES:
        text = read(path)
        if path.endswith('.3') and text.startswith('.so '):
            links.add(os.path.basename(path)[:-2])
            check(os.path.exists(os.path.join(BUILD, 'docs', os.path.basename(text.split()[1]))), '%s', text)
        elif path.endswith('.3'):
            told.update(synopsis(text))
    header = prototypes(os.path.join(ROOT, 'apps', 'libweir', 'weir.h'))
    check(told == header, '%s', set(told.items()) ^ set(header.items()))
    check(links < set(header), '%s', links)
    counters = re.search(r'#define WEIR_STATS_LIST\(X\)(.*?)\n\n', read(os.path.join(ROOT, 'apps/libweir/weir.h')), re.S).group(1)
    words = ['.It %s\n' % name for name in re.findall(r'X\((\w+),', counters)]
    for name, words in (('weir.3', words + ['WEIR_PARTIAL_RESCALE', 'error_feedback_bytes', 'OMPI_COMM_WORLD_RANK', 'int8']),
                        ('weir_allreduce.3', ['.Nm weir_alltoall', 'alltoall       n * count', '-EMSGSIZE'])):
        check(all(word in page(name) for word in words), '%s lacks one of %s', name, words)
    pages = {os.path.basename(p) for p in installed() if os.path.dirname(p).endswith('man3')}
    check(pages == {name + '.3' for name in header} | {'weir.3'}, '%s', pages)


@case
def pages_are_well_formed():
    if not shutil.which('mandoc'):
        raise Skip('no mandoc')
    known = {os.path.basename(p) for p in PAGES}
    for path in PAGES:
        if read(path).startswith('.so '):
            continue
        run = subprocess.run(['mandoc', '-T', 'lint', '-W', 'style', path], timeout=800, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        # Which pages there are besides is this machine's; ours are looked at below.
        said = [line for line in run.stdout.splitlines()
                if 'referenced manual not found' not in line and 'outdated mandoc.db' not in line]
        check(not said, '%s', '\n'.join(said))
        for name, number in re.findall(r'^\.Xr (weir[\w.-]*) (\d)', read(path), re.M):
            check('%s.%s' % (name, number) in known, '%s: there is no %s(%s)', path, name, number)


@case
def the_reference_is_made_without_warnings():
    if not shutil.which('doxygen'):
        raise Skip('no doxygen')
    folder = os.path.join(BUILD, 'docs', 'reference')
    said = call([os.path.join(ROOT, 'docs', 'reference', 'make'), 'doxygen',
                 os.path.join(BUILD, 'docs', 'Doxyfile'), folder])
    check(folder + '/index.html' in said, '%s', said)
    text = read(os.path.join(folder, 'weir_8h.html'))
    for name in prototypes(os.path.join(ROOT, 'apps/libweir/weir.h')):
        check('>%s</a>' % name in text, 'weir.h: %s is not there', name)
    # Laid out as in the header, and nothing of comments is left.
    check('  alltoall       n * count             n * count' in text, 'the table of buffers')
    left = [line for line in re.sub('<[^>]*>', '', text).splitlines() if re.match(r'\s*(\* |/\*|@)', line) and '@license' not in line]
    check(not left, '%s', left)


if __name__ == '__main__':
    main()
