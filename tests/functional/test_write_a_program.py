#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/write-a-program.md from an installed Weir, outside of the tree: weir-program makes a project; what it has compiles
with what pkg-config says, the switch loads and unloads it under its own test, and weir-bench drives it."""
import glob
import json
import os
import subprocess
import tempfile

from installed import Stage, call, option
from tap import case, check, main


def environment(stage):
    """In which an installation is used, which here is in a folder of its own."""
    (pc,) = glob.glob(stage.path('lib', '**', 'weir-program.pc'), recursive=True)
    with open(pc) as file:
        text = file.read()
    with open(pc, 'w') as file:
        file.write(text.replace('prefix=' + option('prefix'), 'prefix=' + stage.prefix, 1))
    env = {k: v for k, v in os.environ.items() if k not in ('WEIR_BUILD', 'PYTHONPATH')}
    return dict(env, PKG_CONFIG_PATH=os.path.dirname(pc), PATH=stage.path('bin') + ':' + env['PATH'],
                CFLAGS='-O1 -Wall -Wextra -Werror')


def refused(argv, text):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=300, check=False, env=env, cwd=folder)
    check(done.returncode == 2 and text in done.stderr, '%s: %d %s', argv, done.returncode, done.stderr)


@case
def the_page_from_its_first_command_to_its_last():
    project = os.path.join(folder, 'mysum')
    said = call(['weir-program', 'new', 'mysum'], env=env, cwd=folder)
    check(said.count('\n') == 4 and 'weirctl program load mysum.so' in said, '%s', said)
    for words, text in ((['mysum'], 'exists'), (['9x'], 'cannot be the name'), (['host'], 'cannot be the name'),
                        (['x', 'no/such'], 'No such file'), ([], 'a NAME')):
        refused(['weir-program', 'new', *words], text)
    said = call(['make', '-C', project, 'test'], env=env)
    check('mysum: ok' in said, '%s', said)
    check('vectorsum' not in call(['grep', '-ri', '', project]), 'a name is left')
    call(['make', '-C', project, 'install', 'DESTDIR=' + folder], env=env)
    where = call(['pkg-config', '--variable=programdir', 'weir-program'], env=env).strip()
    check(os.path.exists(folder + where + '/mysum.so'), '%s', where)


@case
def the_headers_are_all_that_they_include():
    headers = glob.glob(installation.path('include/weir-program/**/*.h'), recursive=True)
    check(len(headers) > 30, '%s', headers)
    with open(os.path.join(folder, 'all.c'), 'w') as file:
        file.writelines('#include "%s"\n' % header for header in headers)
    call(['sh', '-c', 'gcc -std=gnu11 -fsyntax-only $CFLAGS $(pkg-config --cflags weir-program) all.c'], env=env, cwd=folder)


@case
def the_bench_drives_a_program():
    project = os.path.join(folder, 'p')
    call(['weir-program', 'new', 'vectorsum', project], env=env)
    call(['make', '-C', project, 'vectorsum.so'], env=env)
    command = ['weir-bench', 'engine', '--huge', 'no', '--phase', '5', '--repeat', '2', '--json=' + project + '/found.json',
               '--program', project + '/vectorsum.so', '--frames-file']
    said = call([*command, project + '/bench.json', '--setting', 'ranks=4', '--linked'], env=env)
    with open(project + '/found.json') as file:
        rows = json.load(file)
    check([row['code'] for row in rows] == ['loaded', 'linked'] and 'dropped' not in said, '%s', said)
    for row in rows:  # an answer for each vector
        check(row['rate'] > 0 and row['time'] > 0 and abs(row['sent'] - 1) < 0.2, '%s', row)
    check(rows[1]['ratio'] > 0, '%s', rows)
    refused([*command, project + '/bench.json'], 'ranks')
    refused([*command, '/dev/null'], '/dev/null')
    refused([*command, project + '/bench.json', '--setting', 'ranks=4', '--program', folder + '/mysum/mysum.so', '--linked'], 'only for')
    with open(project + '/bench.json') as file:
        frames = json.load(file)
    for key, value in (('frames', 0), ('bytes', 9999), ('hex', ['0']), ('hex', ['zz' * 20]), ('fields', [{'offset': 57, 'bytes': 2}]), ('x', 1)):
        with open(project + '/wrong.json', 'w') as file:
            json.dump(dict(frames, **{key: value}), file)
        refused([*command, project + '/wrong.json', '--setting', 'ranks=4'], 'wrong.json: ')


if __name__ == '__main__':
    with Stage() as installation, tempfile.TemporaryDirectory(prefix='weir-program-') as folder:
        env = environment(installation)
        main()
