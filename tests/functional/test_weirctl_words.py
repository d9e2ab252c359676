#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""weirctl's summary, its manual page and its completions for bash and zsh: they say the same."""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

from fake_api import FakeApi
from tap import case, check, main

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WEIRCTL = os.path.join(os.environ['WEIR_BUILD'], 'apps', 'ctl', 'weirctl')


def ctl(*words):
    """Run weirctl. Returns its status, output and errors."""
    env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_') and k != 'COLUMNS'}
    return subprocess.run([WEIRCTL, *words], env=dict(env, LC_ALL='C.UTF-8'), timeout=30, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def summary():
    run = ctl('--help')
    check(run.returncode == 0 and not run.stderr, '%s', run)
    return run.stdout


@case
def pages_and_completion():
    help_text = summary()
    commands = set(re.findall(r'^  ([a-z]+)(?: [a-z]+)? +(?:NAME)? ', help_text, re.M))
    options = set(re.findall(r'--([a-z-]+)', help_text))
    check(len(commands) >= 10 and len(options) >= 25, '%s %s', commands, options)
    folder = os.path.join(ROOT, 'apps', 'ctl')
    for name in ('weirctl.1', 'completion/weirctl.bash', 'completion/_weirctl'):
        with open(os.path.join(folder, name)) as file:
            text = file.read()
        text = text.replace('\\-', '-')
        for word in commands | options:
            check(re.search(r'(?<![a-z])%s(?![a-z-])' % word, text), '%s lacks %s', name, word)
    for command in (['mandoc', '-T', 'lint', '-W', 'style', folder + '/weirctl.1'],
                    ['bash', '-n', folder + '/completion/weirctl.bash'],
                    ['zsh', '-n', folder + '/completion/_weirctl']):
        try:
            run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                 timeout=20)
        except FileNotFoundError:
            print('# %s is not there' % command[0])
            continue
        check(run.returncode == 0 and not run.stdout, '%s: %s', command[0], run.stdout)


def options_by_command(text):
    """What the summary says: {'blocks': {'stuck', ...}, ...}, and the options of all commands."""
    found, command = {}, None
    for line in text.splitlines():
        begins = re.match(r'([a-z]+(?: [a-z]+)?): ', line)
        command = begins.group(1) if begins else command if line.startswith('    ') else None
        if command:
            found.setdefault(command, set()).update(re.findall(r'--([a-z-]+)', line))
    found['job create'] |= found['job set']
    return found, set(re.findall(r'^  .{4}--([a-z-]+)', text, re.M))


def options_of_manual(text, common):
    """The same of the manual page: what its paragraphs about a command name."""
    found = {}
    for part in re.split(r'^\.It Cm ', text.split('.Sh OPTIONS')[0], flags=re.M)[1:]:
        command = re.match(r'job (?:create|set|delete)|faults add|[a-z]+', part).group()
        found.setdefault(command, set()).update(set(re.findall(r'Fl -([a-z-]+)', part)) - common)
    found['job create'] |= found['job set']
    return {command: options for command, options in found.items() if options}


def options_of_zsh(text, common):
    """The same of zsh's completion: what each case hands to _arguments."""
    def words(part):
        return set(re.findall(r"[',]--([a-z-]+)[\[},']", part))

    arrays = {name: words(body) for name, body in
              re.findall(r'^\t(all|set|create|add)=\((.*?)^\t\)', text, re.M | re.S)}
    check(arrays['all'] == common, 'zsh: %s, not %s', arrays['all'], common)
    arrays['create'] |= arrays['set']
    found = {}
    for command, part in re.findall(r'^\t+([a-z]+)\) (_arguments.*?);;', text, re.M | re.S):
        given = words(part).union(*(arrays[a] for a in ('set', 'create', 'add') if '$' + a in part))
        if given:
            found['job ' + command if command in ('create', 'set', 'delete') else
                  'faults add' if command == 'add' else command] = given
    return found


def options_of_bash(command, common):
    given = bash_offers('unix:/nowhere', *command.split(), 'ring', '--')
    check({'--' + c for c in common} <= given, 'bash, %s: %s', command, given)
    return {word[2:] for word in given if word.startswith('--')} - common


@case
def each_command_has_the_same_options_everywhere():
    """In the summary, the manual page and both completions: one in one and not in the other is a
    mistake. (What weirctl takes is compared with the summary elsewhere.)"""
    folder = os.path.join(ROOT, 'apps', 'ctl')
    want, common = options_by_command(summary())
    check(len(want) == 8 and len(common) == 8, '%s %s', want, common)
    with open(os.path.join(folder, 'weirctl.1')) as file:
        text = file.read().replace('\\-', '-')
    told = set(re.findall(r'^\.It Fl (?:[a-zA-Z] , )?-([a-z-]+)', text, re.M))
    check(told >= common, 'weirctl.1: %s, not %s', told, common)
    check(options_of_manual(text, common) == want, 'weirctl.1: %s, not %s',
          options_of_manual(text, common), want)
    with open(os.path.join(folder, 'completion', '_weirctl')) as file:
        found = options_of_zsh(file.read(), common)
    check(found == want, '_weirctl: %s, not %s', found, want)
    for command in ('status', 'jobs', 'members', 'config', 'health', 'tenants', 'ports', *want):
        found = options_of_bash(command, common)
        check(found == want.get(command, set()), 'weirctl.bash, %s: %s, not %s', command, found,
              want.get(command))
        # And weirctl knows it: it may lack a value, or a switch, but is no unknown option.
        for option in found:
            run = ctl('-s', 'unix:/nowhere', *command.split(), '--' + option)
            check('unrecognized' not in run.stderr and 'takes no' not in run.stderr, '%s', run)


def bash_offers(address, *words):
    """What Tab offers."""
    script = ('source %s/apps/ctl/completion/weirctl.bash; COMP_WORDS=(%s); COMP_CWORD=%d; '
              '_weirctl; printf "%%s\\n" "${COMPREPLY[@]}"'
              % (ROOT, ' '.join("'%s'" % w for w in ('weirctl',) + words), len(words)))
    env = dict(os.environ, WEIR_SWITCH=address,
               PATH=os.path.dirname(WEIRCTL) + ':' + os.environ['PATH'])
    run = subprocess.run(['bash', '--norc', '-c', script], env=env, timeout=10, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(run.returncode == 0 and not run.stderr, '%s', run)
    return set(run.stdout.split())


@case
def completion_in_bash():
    """What Tab offers, names of jobs among it."""
    with FakeApi() as api:
        api.fill()

        def offers(*words):
            return bash_offers(api.address, *words)
        check({'status', 'top', 'blocks', 'job'} <= offers(''), '%s', offers(''))
        check(offers('bl') == {'blocks'}, '%s', offers('bl'))
        check({'create', 'set', 'delete', 'ring', 'eval'} == offers('job', ''), '%s', offers('job', ''))
        check(offers('job', 'delete', 'r') == {'ring'}, 'delete')
        check(offers('members', '') == {'ring', 'eval'}, 'members')
        check('--stuck' in offers('blocks', '--'), '%s', offers('blocks', '--'))
        check('--stuck' not in offers('jobs', '--'), '%s', offers('jobs', '--'))
        check(offers('job', 'set', 'ring', '--policy', '') == {'wait', 'partial', 'error'}, 'policy')
        check({'show', 'set', 'add', 'clear'} == offers('faults', ''), '%s', offers('faults', ''))
        check(offers('faults', 'add', 'd') == {'drop', 'duplicate', 'delay'}, 'actions')
        check(offers('faults', 'add', 'drop', '--port', '') == {'p0', 'p1'}, 'ports')
        check('/etc/passwd' in offers('faults', 'set', '/etc/pass'), 'files')
        check(offers('member', '') == {'delete'}, '%s', offers('member', ''))
        check(offers('member', 'delete', '') == {'ring', 'eval'}, 'member')
        check(offers('member', 'delete', 'ring', '') == set(), 'a rank')


def typed(keys, folder):
    """What stands in the line of a bash after these keys, the last of which is a Tab."""
    rc = os.path.join(folder, 'bashrc')
    with open(rc, 'w') as file:
        file.write('PS1="> "; bind "set enable-bracketed-paste off"; HISTFILE=\n'
                   'source %s/apps/ctl/completion/weirctl.bash\n' % ROOT)
    pid, fd = pty.fork()
    if pid == 0:
        env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        env.update(TERM='dumb', COLUMNS='500', PATH=os.path.dirname(WEIRCTL) + ':' + env['PATH'])
        os.execvpe('bash', ['bash', '--noprofile', '--rcfile', rc, '-i'], env)
    # Then to its begin and its end, so that printf shows it as it stands.
    said, until, keys = b'', time.monotonic() + 10, keys + '\t\x01printf "<%s>" \'\x05\'\n'
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
    with FakeApi() as api, tempfile.TemporaryDirectory(prefix='weir-words-') as folder:
        api.fill()
        for begin in ('weirctl -s ' + api.address, 'weirctl --switch=' + api.address):
            for keys, end in (('job del', 'job delete '), ('job delete r', 'job delete ring '),
                              ('members e', 'members eval '), ('bl', 'blocks '),
                              ('job set ring --policy par', 'job set ring --policy partial '),
                              ('job set ring --policy=par', 'job set ring --policy=partial ')):
                line = typed('%s %s' % (begin, keys), folder)
                check(line == '%s %s' % (begin, end), '%s: %s', keys, line)


if __name__ == '__main__':
    sys.exit(main())
