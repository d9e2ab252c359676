#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""libweir as it is installed, and nothing of the source: its header in C and C++, what the shared and
the static library show, pkg-config's words, the examples on a rack, and the programs of its guide."""
import atexit
import functools
import glob
import os
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

from installed import ROOT, Stage, call, option
from join_hosts import PORT, environment
from tap import Skip, case, check, main
from rack import SWITCH_ADDRESS, Rack, job

WARNINGS = ['-Wall', '-Wextra', '-Wpedantic', '-Werror']
LANGUAGES = [['gcc', '-std=c11', '-x', 'c'], ['g++', '-std=c++17', '-x', 'c++'],
             ['clang', '-std=c11', '-x', 'c'], ['clang++', '-std=c++17', '-x', 'c++']]
EXAMPLES = os.path.join('share', 'doc', 'weir', 'examples', 'libweir')
HOSTS = 3


@functools.cache
def staged():
    """One for all cases."""
    stage = Stage().__enter__()
    atexit.register(stage.__exit__)
    return stage


def plain():
    if option('b_sanitize') != 'none':
        raise Skip('the library is built with sanitizers')


def declared(header):
    """The functions of the API, as the header declares them."""
    with open(header) as file:
        text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
    found = re.findall(r'^WEIR_API [^;(]*?\b(weir_\w+)\(', text, re.M)
    check(len(found) >= 20 and len(found) == text.count('WEIR_API ') - 1, '%s', found)
    return set(found)


def symbols(path, *options):
    """The names of what a library defines for others."""
    lines = call(['nm', '--defined-only', '--format=posix', *options, path]).splitlines()
    return {line.split()[0] for line in lines if len(line.split()) > 2}


def program(stage, *words):
    """A program that is linked so says which library it has."""
    code, made = stage.path('x.c'), stage.path('x')
    with open(code, 'w') as file:
        file.write('#include <weir.h>\n#include <stdio.h>\n'
                   'int main(void) { weir_close(NULL); puts("linked"); return 0; }\n')
    compiler = ['g++', '-x', 'c++', '-std=c++17', code, '-x', 'none'] if 'c++' in words else \
        ['gcc', '-std=c11', code]
    call(compiler + WARNINGS + ['-o', made] + [w for w in words if w != 'c++'])
    check(call([made], env={'LD_LIBRARY_PATH': stage.libraries}) == 'linked\n', '%s', words)
    return 'libweir.so' in call(['readelf', '-d', made])


@case
def the_header_compiles_alone():
    stage = staged()
    folder = stage.path('include', 'weir')
    check(sorted(os.listdir(folder)) == ['weir-transport.h', 'weir.h'], '%s', os.listdir(folder))
    code, transport = stage.path('alone'), stage.path('transport')
    with open(code, 'w') as file:
        file.write('#include <weir.h>\n#include <weir.h>\n')
    with open(transport, 'w') as file:
        file.write('#include <weir-transport.h>\nstatic struct weir_transport_ops ops;\n'
                   'const struct weir_transport_ops *const weir_transport = &ops;\n')
    tried = 0
    for language in LANGUAGES:
        if shutil.which(language[0]):
            for one in (code, transport):
                call([*language, *WARNINGS, '-fsyntax-only', '-I', folder, one])
            # A transport shows its symbol in both languages.
            call([*language, '-shared', '-fPIC', '-fvisibility=hidden', '-I', folder, '-o', stage.path('transport.so'), transport])
            check('weir_transport' in symbols(stage.path('transport.so'), '-D'), '%s', language)
            tried += 1
    check(tried >= 2, '%d compilers', tried)
    # Nothing of packets, and no name that is not its own.
    macros = call(['gcc', '-E', '-dM', '-x', 'c', '-I', folder, code])
    own = re.findall(r'^#define ((?:WEIR|weir)_\w+)', macros, re.M)
    known = set(re.findall(r'^#define (\w+)', call(
        ['gcc', '-E', '-dM', '-x', 'c', '-include', 'stdbool.h', '-include', 'stddef.h',
         '-include', 'stdint.h', os.devnull]), re.M))
    others = set(re.findall(r'^#define (\w+)', macros, re.M)) - known - set(own)
    check(others == {'APPS_LIBWEIR_WEIR_H'}, '%s', others)
    check(not [name for name in own if re.match('WEIR_(STATUS|COLLECTIVE(?!_LIST)|PORT|BASE|EXT)', name)],
          '%s', own)


@case
def the_libraries_show_the_api_and_nothing_else():
    plain()
    stage = staged()
    api = declared(stage.path('include', 'weir', 'weir.h'))
    shared = os.path.join(stage.libraries, 'libweir.so')
    check(symbols(shared, '-D') == api, 'exported, not declared: %s; declared, not exported: %s',
          symbols(shared, '-D') - api, api - symbols(shared, '-D'))
    soname = re.search(r'SONAME.*\[(.*)\]', call(['readelf', '-d', shared])).group(1)
    check(re.fullmatch(r'libweir\.so\.\d+', soname), '%s', soname)
    check(os.path.realpath(os.path.join(stage.libraries, soname)) == os.path.realpath(shared),
          '%s', os.listdir(stage.libraries))
    check(not re.search('RPATH|RUNPATH', call(['readelf', '-d', shared])), 'a path to look in')
    archive = os.path.join(stage.libraries, 'libweir.a')
    foreign = {s for s in symbols(archive, '-g') if not s.startswith('weir_') and '.' not in s}
    check(not foreign, 'libweir.a defines %s', foreign)
    check(api <= symbols(archive, '-g'), '%s', api - symbols(archive, '-g'))


@case
def programs_link_either_library_as_pkg_config_says():
    plain()
    stage = staged()
    shared, static = stage.flags('--cflags', '--libs'), stage.flags('--cflags', '--libs', '--static')
    check('-lcrypto' not in shared, 'a program links what it does not call: %s', shared)
    archive = ['-l:libweir.a' if word == '-lweir' else word for word in static]
    for words in (shared, ['c++', *shared]):
        check(program(stage, *words), 'not shared: %s', words)
    for words in (archive, ['c++', *archive]):
        check(not program(stage, *words), 'not static: %s', words)
    version = call(['pkg-config', '--modversion', 'libweir'], env=stage.pkgconfig[1])
    check(re.fullmatch(r'\d+\.\d+\.\d+\n', version), '%s', version)


def built(stage):
    """The installed examples, built by the Makefile beside them: {name: program}."""
    folder = stage.path('examples')
    os.mkdir(folder)
    plain = os.path.join(folder, 'allreduce-cc')
    said = call(['make', '-f', stage.path(EXAMPLES, 'Makefile'), 'FOLDER=' + folder, plain],
                env=stage.pkgconfig[1])
    check('warning' not in said, 'as it is, with C++: %s', said)
    os.unlink(plain)
    call(['make', '-f', stage.path(EXAMPLES, 'Makefile'), 'FOLDER=' + folder,
          'CFLAGS=-O1 ' + ' '.join(WARNINGS)], env=stage.pkgconfig[1])
    found = {name: os.path.join(folder, name) for name in os.listdir(folder)}
    sources = [os.path.basename(p) for p in glob.glob(stage.path(EXAMPLES, '*.c*'))]
    check(len(sources) == len(found) >= 6, '%s of %s', sorted(found), sorted(sources))
    return found


def play(rack, stage, name, path, which='ring'):
    """An example on every host: each rank says that it is right. Returns what they said."""
    runs = [rack.spawn(host, [path], name, environment(
        rank=host, size=rack.hosts, launcher=host, WEIR_SWITCH='http://%s:%d' % (SWITCH_ADDRESS, PORT),
        WEIR_JOB=which, LD_LIBRARY_PATH=stage.libraries)) for host in range(rack.hosts)]
    for rank, run in enumerate(runs):
        run.wait(40)
        check(re.search(r'^[\w.]+: rank %d of %d: right$' % (rank, rack.hosts), run.output, re.M),
              '%s', run.output)
    return [run.output for run in runs]


@case
def the_examples_run_on_a_rack():
    plain()
    if not option('host_control'):
        raise Skip('the library is built without the control API')
    jobs = [job(1, HOSTS, name='ring', timeout_ms=200),
            job(2, HOSTS, name='late', timeout_ms=1000, policy='partial', dead_after_ms=10000)]
    stage = staged()
    with Rack(hosts=HOSTS, jobs=jobs, changes={'api': {'listen': ['tcp:SWITCH:%d' % PORT]}}) as rack:
        examples = built(stage)
        rack.start_switch()
        for name, path in sorted(examples.items()):
            said = play(rack, stage, name, path)
            count = 8 if name == 'collectives' else 1
            check(all(text.count(': right') == count for text in said), '%s: %s', name, said)
        for said in play(rack, stage, 'late', examples['partial'], 'late'):
            check('2 of 3 ranks are in it' in said, '%s', said)
        rack.stop_switch()


@functools.cache
def repository():
    """A copy of the example of a repository, and the environment in which its programs find what is installed. Others may write
    there."""
    stage = staged()
    folder = stage.path('repository')
    shutil.copytree(stage.path('share', 'doc', 'weir', 'examples', 'ci'), folder)
    for path in (stage.folder, folder, os.path.join(folder, 'faults')):
        os.chmod(path, 0o777 if path == folder else 0o755)
    found = {k: v for k, v in stage.pkgconfig[1].items() if not k.startswith('WEIR_')}
    return folder, dict(found, PATH='%s:%s' % (stage.path('bin'), found['PATH']), LD_LIBRARY_PATH='%s:%s' % (stage.libraries, folder))


@case
def a_repository_runs_its_scenarios_in_ci():
    plain()
    if not option('host_control'):
        raise Skip('the library is built without the control API')
    folder, environ = repository()
    nobody = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups']
    user = nobody if subprocess.run([*nobody, 'unshare', '-Urnm', 'true'], check=False).returncode == 0 else []
    said = call([*user, os.path.join(folder, 'ci')], env=environ)
    check(said.endswith('faults: 5 passed, 0 failed, 0 wrong, 0 hung\n'), '%s', said)
    check(len(xml.parse(os.path.join(folder, 'faults.xml')).findall('.//testcase/system-out')) == 5, '%s', said)


@case
def other_transports_are_refused():
    plain()
    folder, environ = repository()
    for name, text, reason in (
            ('old', '#include <weir-transport.h>\nstatic const struct weir_transport_ops ops = {.version = 77};\n'
             'const struct weir_transport_ops *const weir_transport = &ops;\n',
             r'libweir-old\.so is a transport of version 77, and this libweir needs version \d+: build it'),
            ('empty', '', r'libweir-empty\.so is not a transport: it has no symbol weir_transport'),
            ('missing', None, r'cannot be loaded: libweir-missing\.so\.0: .*; libweir-missing\.so: ')):
        library = os.path.join(folder, 'libweir-%s.so' % name)
        if text is not None:
            with open(library + '.c', 'w') as file:
                file.write(text)
            call(['gcc', '-shared', '-fPIC', *staged().flags('--cflags'), '-o', library, library + '.c'])
        run = subprocess.run(['weir-perf', *'--switch 10.0.0.1 --address 10.0.0.2 --job 1 --source 0 --sources 1'.split()], text=True,
                             env=dict(environ, WEIR_TRANSPORT=name), stderr=subprocess.PIPE, timeout=300, check=False)
        check(run.returncode == 1 and re.search(reason, run.stderr), '%s: %s', name, run)


def blocks(page):
    """The fenced blocks of a page that say that they are C or C++: (line, language, text)."""
    with open(page) as file:
        text = file.read()
    for found in re.finditer(r'^```(c|cpp)\n(.*?)^```$', text, re.M | re.S):
        yield text.count('\n', 0, found.start()) + 1, found.group(1), found.group(2)


# What a block that is no whole program stands in.
AROUND = '''#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir.h>
extern struct weir *weir;
extern float *data, *more, *send, *recv;
extern size_t count;
extern unsigned int rank, ranks;
int block(void);
int block(void)
{
%s
	return 0;
}
'''


@case
def the_guide_compiles():
    stage = staged()
    folder, tried = stage.path('include', 'weir'), 0
    for line, language, text in blocks(os.path.join(ROOT, 'docs', 'libweir.md')):
        whole = re.search(r'^(static |int\nmain|struct \w+ \{|void\n|using )', text, re.M)
        code = stage.path('block.' + language)
        with open(code, 'w') as file:
            file.write('#line %d "docs/libweir.md"\n%s' % (line + 1, text) if whole else
                       AROUND % ('#line %d "docs/libweir.md"\n%s' % (line + 1, text)))
        compiler = ['gcc', '-std=c11'] if language == 'c' else ['g++', '-std=c++17']
        call(compiler + WARNINGS + ['-fsyntax-only', '-Wno-unused-function', '-I', folder, code])
        tried += 1
    check(tried >= 6, '%d blocks', tried)


if __name__ == '__main__':
    main()
