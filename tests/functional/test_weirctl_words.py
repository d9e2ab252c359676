#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl's --help, its manual page and its completion for bash, zsh and fish: they say the same."""
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from ctl import WEIRCTL, ctl, good
from tap import Skip, case, check, main, table

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def help_of(*words):
    return good(ctl(None, *words, '--help'))


def commands():
    """The commands of the summary: ['status', ..., 'job create', ...]."""
    found = re.findall(r'^  ([a-z]+(?: [a-z]+)?) +', help_of(), re.M)
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
# Print what a shell offers for the last of these words; functions of zsh's completion are played.
SCRIPTS = {
    'bash': """source $0.bash; COMP_WORDS=(weirctl "$@") COMP_CWORD=$#; _weirctl; printf '%s\n' "${COMPREPLY[@]}" """,
    'zsh': """words=(weirctl "$@"); CURRENT=$#words; file=$0.zsh
        _describe() { print -l -- ${(M)${${(P)2}%%:*}:#$words[CURRENT]*} }
        _normal() { (( CURRENT > 1 )) || print -l ${(k)commands} }
        compset() { words[CURRENT]=${words[CURRENT]#*=} }
        complete() { source $file }; complete""",
    'fish': 'source $argv[1].fish; complete -C "weirctl $argv[2..]" | cut -f 1'}


def run_shell(shell, *words):
    if not shutil.which(shell):
        raise Skip('%s is not installed' % shell)
    with tempfile.TemporaryDirectory(prefix='weir-words-') as home:
        env = dict(os.environ, PATH=os.path.dirname(WEIRCTL) + ':' + os.environ['PATH'], HOME=home)
        folder = os.path.join(home, 'empty')  # no files to offer
        os.mkdir(folder)
        run = subprocess.run([shell, {'bash': '--norc', 'zsh': '-f', 'fish': '--no-config'}[shell], '-c', SCRIPTS[shell],
                              os.path.join(ROOT, 'apps', 'ctl', 'weirctl'), *words], cwd=folder, env=env, timeout=800,
                             text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(run.returncode == 0 and not run.stderr, '%s', run)
    return set(run.stdout.split())


def completion(shell):
    offers = lambda *words: run_shell(shell, *words)
    for words, want in ((('bl',), {'blocks'}), (('job', ''), {'create', 'set', 'delete', 'tokens'}),
                        (('job', 'set', 'ring', '--policy', ''), {'wait', 'partial', 'error'}),
                        (('faults', ''), {'show', 'set', 'add', 'clear'}), (('member', ''), {'delete'}),
                        (('-s', 'unix:/a.sock', 'job', 'del'), {'delete'}), (('member', 'delete', 'ring', ''), set())):
        check(offers(*words) == want, '%s: %s', words, offers(*words))
    last = ('--policy', '=', 'p') if shell == 'bash' else ('--policy=p',)
    check({word.split('=')[-1] for word in offers('job', 'set', 'ring', *last)} == {'partial'}, 'behind an equals sign')
    for command in commands():
        given, want = {word[2:] for word in offers(*command.split(), 'ring', '--')}, options_of(help_of(*command.split()))
        check(given == want, '%s: %s, not %s', command, given, want)
    check({'status', 'blocks', 'job', 'tree'} <= offers(''), '%s', offers(''))
    check('bash' in offers('run', '--space', 'a', '--', 'bas'), 'the commands of the shell')
    check('--space' not in offers('run', '--', 'bash', '--s'), 'options of weirctl for another command')


table(completion, **{'completion_in_' + shell: {'shell': shell} for shell in SCRIPTS})


# How a shell starts in a terminal.
STARTS = {
    'bash': ('.bashrc', ['bash', '--noprofile', '--rcfile', '.bashrc', '-i'],
             'PS1="> "; bind "set enable-bracketed-paste off"; HISTFILE=; source %s/apps/ctl/weirctl.bash'),
    'zsh': ('.zshrc', ['zsh', '-d', '-i'], 'PS1="> "; unset zle_bracketed_paste; bindkey -e; ln -s %s/apps/ctl/weirctl.zsh _weirctl; '
            'fpath=($PWD $fpath); autoload -U compinit; compinit -u -d dump')}


def typed(shell, keys, folder):
    """What stands in the line of a shell after these keys, the last of which is a Tab."""
    file, words, begin = STARTS[shell]
    with open(os.path.join(folder, file), 'w') as rc:
        rc.write(begin % ROOT)
    pid, fd = pty.fork()
    if pid == 0:
        env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        env.update(TERM='dumb', COLUMNS='500', ZDOTDIR=folder, PATH=os.path.dirname(WEIRCTL) + ':' + env['PATH'])
        os.chdir(folder)
        os.execvpe(shell, words, env)
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


def completion_behind_an_address(shell):
    """Colons and equals signs break words for readline: an address comes to the function in pieces."""
    if not shutil.which(shell):
        raise Skip('%s is not installed' % shell)
    for begin, keys, end in (('-s unix:/run/weir/a.sock', 'job del', 'job delete'),
                             ('--switch=unix:/run/weir/a.sock', 'bl', 'blocks'),
                             ('-s unix:/run/weir/a.sock', 'job set ring --policy par', 'job set ring --policy partial'),
                             ('--switch=unix:/run/weir/a.sock', 'job set ring --policy=par', 'job set ring --policy=partial'),
                             ('-s unix:/a', 'faults set ./ru', 'faults set ./rules.json')):
        with tempfile.TemporaryDirectory(prefix='weir-words-') as folder:
            with open(os.path.join(folder, 'rules.json'), 'w'):
                pass
            line = typed(shell, 'weirctl %s %s' % (begin, keys), folder)
            check(line.strip() == 'weirctl %s %s' % (begin, end), '%s: %s', keys, line)


table(completion_behind_an_address, **{'completion_in_a_terminal_of_' + shell: {'shell': shell} for shell in STARTS})


if __name__ == '__main__':
    sys.exit(main())
