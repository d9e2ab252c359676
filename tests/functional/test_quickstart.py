#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The commands of docs/quickstart.md, run: "The rack" and then "Watch it and change it", in one
shell, in namespaces that end with it."""
import os
import re
import subprocess
import sys
import tempfile

from tap import Skip, case, check, main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
with open(os.path.join(ROOT, 'docs/quickstart.md')) as page:
    PAGE = page.read()
BUILD = os.environ['WEIR_BUILD']
OWN = ['unshare', '--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
BEGIN = '''
set -e
mount -t tmpfs none /run
ip link set lo up
within() { for _ in $(seq 3000); do eval "$1" && return 0; sleep 0.1; done; echo "not within 300 s: $1"; exit 1; }
'''


def section(title):
    """The blocks of commands of a section."""
    text = re.search(r'^## %s\n(.*?)^## ' % title, PAGE, re.M | re.S).group(1)
    return re.findall(r'^```\n(.*?)^```$', text, re.M | re.S)


def rack():
    """The block of commands; its comment becomes a wait, and the background host is waited for."""
    (block,) = section('The rack')
    check('weir-switch -c configs/join.json &    # wait until it prints "ready"\n' in block, '%s', block)
    block = block.replace('&    # wait until it prints "ready"',
                          '>switch.log 2>&1 & within "grep -q ready switch.log"')
    return block + 'wait $!; echo "the other host: $?"\n'


def watch(hosts):
    """The commands behind the prompts, each printed first, and between them what the page's text
    describes: hosts start, one stops, it continues."""
    words, count = '', 0
    for block in section('Watch it and change it'):
        for command in re.findall(r'^# (.*)$', block, re.M):
            before = {2: '%s within "build/apps/ctl/weirctl jobs | grep -q \'2 of 2\'"' % hosts,
                      3: 'kill -STOP $late; within "build/apps/ctl/weirctl blocks --stuck | grep -q rank"',
                      4: 'kill -CONT $late'}
            words += '%s\necho "# %s"\n%s\n' % (before.get(count, ''), command.replace('"', ''), command)
            count += 1
    check(count == 6, '%d commands', count)
    return words


def long_hosts():
    """The hosts of the rack, with the options that the page names."""
    options = re.search(r'`--job-name long ([^`]*)`', PAGE).group(1)
    lines = [line.rstrip('& ') for line in section('The rack')[0].splitlines() if 'weir-perf' in line]
    check(len(lines) == 2, '%s', lines)
    first, second = (re.sub(r'--job-name try .*', '--job-name long ' + options, line) +
                     ' >/dev/null 2>&1 &\n' for line in lines)
    return first + 'late=$!\n' + second


@case
def the_rack_is_watched_and_changed():
    with tempfile.TemporaryDirectory(prefix='weir-quickstart-') as folder:
        os.symlink(BUILD, os.path.join(folder, 'build'))
        os.symlink(os.path.join(ROOT, 'configs'), os.path.join(folder, 'configs'))
        env = {k: v for k, v in os.environ.items() if not k.startswith(('WEIR_', 'COLUMNS'))}
        done = subprocess.run(OWN + ['bash', '-c', BEGIN + rack() + watch(long_hosts())],
                              cwd=folder, env=env, timeout=800, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    said = done.stdout
    if re.search(r'^(unshare|mount): ', said, re.M):
        raise Skip('no namespaces of its own: ' + said.strip())
    check(done.returncode == 0, 'status %d\n%s', done.returncode, said)
    check('the other host: 0' in said and 'Out of bounds values : 0 OK' in said, 'the run:\n%s', said)
    for pattern in (r'^job      long, id 0, joining, from the API$', r'^long +0  running  2 of 2 ',
                    r'^job long: .*block.* waits? for rank 1 \(10\.77\.0\.2\), last heard [\d.]+ s ago; policy '
                    'wait', r'^weir_job_blocks_complete_total\{weir_job="long"\} \d+$', r'^gone\n(?:.*\n)+gone$'):
        check(re.search(pattern, said, re.M), '%s is not said:\n%s', pattern, said)


if __name__ == '__main__':
    sys.exit(main())
