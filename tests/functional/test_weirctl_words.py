#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl's --help, its manual page and its completion for bash: they say the same."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

from ctl import WEIRCTL, ctl, good
from tap import case, check, main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def help_of(*words):
    return good(ctl(None, *words, '--help'))


def commands():
    """The commands of the summary: ['status', ..., 'job create', ...]."""
    found = re.findall(r'^  ([a-z]+(?: (?:create|set|delete|tokens|show|add|clear))?) +', help_of(), re.M)
    check(len(found) >= 20 and 'job create' in found, '%s', found)
    return found


def options_of(text):
    return set(re.findall(r'^ +(?:-.,)? *--([a-z-]+)', text, re.M)) - {'usage'}


@case
def the_manual_has_every_command_and_option():
    """Those of a command in its paragraphs; and no other."""
    page = os.path.join(ROOT, 'apps', 'ctl', 'weirctl.1')
    with open(page) as file:
        text = file.read().replace('\\-', '-')
    common = options_of(help_of())
    told = set(re.findall(r'^\.It Fl (?:\S+ , )?-([a-z-]+)', text, re.M)) - {'watch', 'output'}
    check(told == common and len(common) == 8, 'weirctl.1: %s, not %s', told, common)
    paragraphs = {}
    for part in re.split(r'^\.It Cm ', text.split('.Sh OPTIONS')[0], flags=re.M)[1:]:
        command = next(c for c in sorted(commands(), key=len, reverse=True) if part.startswith(c))
        paragraphs.setdefault(command, set()).update(set(re.findall(r'Fl -([a-z-]+)', part)) - common)
    paragraphs['job create'] |= paragraphs['job set']
    paragraphs['tree create'] |= paragraphs['job create'] - {'size'}
    for command in commands():
        if command != 'faults show':
            want = options_of(help_of(*command.split())) - common
            check(paragraphs.get(command) == want, 'weirctl.1: %s: %s, not %s', command, paragraphs.get(command), want)
    for command in (['mandoc', '-T', 'lint', '-W', 'style', page],
                    ['bash', '-n', ROOT + '/apps/ctl/weirctl.bash']):
        try:
            run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 timeout=800)
        except FileNotFoundError:
            print('# %s is not there' % command[0])
            continue
        said = [line for line in run.stdout.splitlines() if 'referenced manual not found: Xr weir' not in line]
        check(not said and (run.returncode == 0 or run.stdout), '%s: %s', command[0], run.stdout)


def bash_offers(*words):
    """What Tab offers."""
    script = ('source %s/apps/ctl/weirctl.bash; COMP_WORDS=(%s); COMP_CWORD=%d; '
              '_weirctl; printf "%%s\\n" "${COMPREPLY[@]}"'
              % (ROOT, ' '.join("'%s'" % w for w in ('weirctl',) + words), len(words)))
    env = dict(os.environ, PATH=os.path.dirname(WEIRCTL) + ':' + os.environ['PATH'])
    run = subprocess.run(['bash', '--norc', '-c', script], env=env, timeout=800, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(run.returncode == 0 and not run.stderr, '%s', run)
    return set(run.stdout.split())


@case
def completion_in_bash():
    for words, want in ((('bl',), {'blocks'}), (('job', ''), {'create', 'set', 'delete', 'tokens'}),
                        (('job', 'set', 'ring', '--policy', ''), {'wait', 'partial', 'error'}),
                        (('job', 'set', 'ring', '--policy', '=', 'p'), {'partial'}),
                        (('faults', ''), {'show', 'set', 'add', 'clear'}), (('member', ''), {'delete'}),
                        (('member', 'delete', 'ring', ''), set())):
        check(bash_offers(*words) == want, '%s: %s', words, bash_offers(*words))
    for command in commands():
        given, want = {word[2:] for word in bash_offers(*command.split(), 'ring', '--')}, options_of(help_of(*command.split()))
        check(given == want, '%s: %s, not %s', command, given, want)
    check({'status', 'blocks', 'job'} <= bash_offers(''), '%s', bash_offers(''))
    check('bash' in bash_offers('run', '--space', 'a', '--', 'bas'), 'the commands of the shell')
    check(not bash_offers('run', '--', 'bash', '--s'), 'options of weirctl for another command')


def typed(keys, folder):
    """What stands in the line of a bash after these keys, the last of which is a Tab."""
    rc = os.path.join(folder, 'bashrc')
    with open(rc, 'w') as file:
        file.write('PS1="> "; bind "set enable-bracketed-paste off"; HISTFILE=\n'
                   'source %s/apps/ctl/weirctl.bash\n' % ROOT)
    pid, fd = pty.fork()
    if pid == 0:
        env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        env.update(TERM='dumb', COLUMNS='500', PATH=os.path.dirname(WEIRCTL) + ':' + env['PATH'])
        os.execvpe('bash', ['bash', '--noprofile', '--rcfile', rc, '-i'], env)
    # Then to its begin and its end, so that printf shows it as it stands.
    said, until, keys = b'', time.monotonic() + 60, keys + '\t\x01printf "<%s>" \'\x05\'\n'
    try:
        while b'\n<' not in said and time.monotonic() < until:
            if select.select([fd], [], [], 0.5)[0]:
                said += os.read(fd, 4096)
            if keys and b'> ' in said:
                os.write(fd, keys.encode())
                keys = ''
    finally:
        os.close(fd)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    found = re.search(rb'\n<(.*?)>', said)
    check(found, '%s', said)
    return found.group(1).decode()


@case
def completion_behind_an_address_in_a_terminal():
    """Colons and equals signs break words for readline: an address comes to the function in pieces."""
    with tempfile.TemporaryDirectory(prefix='weir-words-') as folder:
        with open(os.path.join(folder, 'rules.json'), 'w'):
            pass
        for begin, keys, end in (('-s unix:/run/weir/a.sock', 'job del', 'job delete '),
                                 ('--switch=unix:/run/weir/a.sock', 'bl', 'blocks '),
                                 ('-s unix:/run/weir/a.sock', 'job set ring --policy par', 'job set ring --policy partial '),
                                 ('--switch=unix:/run/weir/a.sock', 'job set ring --policy=par', 'job set ring --policy=partial '),
                                 ('-s unix:/a', 'faults set %s/ru' % folder, 'faults set %s/rules.json ' % folder)):
            line = typed('weirctl %s %s' % (begin, keys), folder)
            check(line == 'weirctl %s %s' % (begin, end), '%s: %s', keys, line)


if __name__ == '__main__':
    sys.exit(main())
