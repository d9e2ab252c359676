#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Listeners that are full: whoever fills one, with whatever requests, keeps nobody else out."""
import contextlib
import grp
import os
import re
import signal
import socket
import subprocess
import time

from control import PORT, Control, switch, tenant
from process import answer_to
from tap import Skip, case, check, main, shared, wait_for
from rack import Rack

PLACES = 256  # of a listener
PER_ADDRESS = 128
IDLE_S = 15  # API_IDLE_S: who is silent for so long is closed
ENDLESS = b'POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n%s\r\n'


def bearer(name):
    return b'Authorization: Bearer %s\r\n' % name.encode()


@shared
def three():
    """Tenants; their tokens are their names. A user of the group daemon may use the Unix socket."""
    with switch(tenants=[tenant('a'), tenant('b'), tenant('root', admin=True)], socket_group='daemon') as found:
        yield found


def connect(rack, number):
    """From one of many addresses of this machine."""
    with rack.inside('sw'):
        return socket.create_connection(('127.0.0.1', PORT), 60, ('127.0.0.%d' % (2 + number), 0))


def hears(rack, name, number=200):
    with contextlib.closing(connect(rack, number)) as connection:
        try:
            connection.sendall(b'GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n%s\r\n' % bearer(name))
            return connection.recv(1000).startswith(b'HTTP/1.1 200')
        except OSError:
            return False


def is_over(connection):
    connection.settimeout(0.001)
    try:
        while connection.recv(4096):
            pass
    except (socket.timeout, TimeoutError):
        return False
    except OSError:
        pass
    return True


@contextlib.contextmanager
def full(api, data):
    """All places taken, eight by each address, each by a request that gets its answer, or has none."""
    held = []
    try:
        for number in range(PLACES):
            held.append(connect(api.rack, number // 8))
            held[-1].sendall(data)
        api.wait_read()
        yield held
    finally:
        for connection in held:
            connection.close()


@case
def strangers_that_send_slowly():
    rack, api = three()
    with full(api, ENDLESS % b'') as held:
        for name in ('root', 'a'):
            check(hears(rack, name), '%s is kept out', name)
        # What is refused in any case has a moment for its body.
        wait_for(lambda: all(is_over(connection) for connection in held), 'kept for ever')


@case
def one_address_has_half_of_the_places():
    """Whoever comes to it may show a token before it is closed for others that come later; and none stays for ever."""
    rack, api = three()
    held = [connect(rack, 0) for _ in range(PER_ADDRESS + 32)]
    wait_for(lambda: sum(not is_over(connection) for connection in held) <= PER_ADDRESS, 'all of one address are open')
    with contextlib.closing(connect(rack, 0)) as late:
        held.extend(connect(rack, 0) for _ in range(PER_ADDRESS // 2))
        api.wait_read()
        late.sendall(b'GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n%s\r\n' % bearer('root'))
        check(late.recv(1000).startswith(b'HTTP/1.1 200'), 'closed before its token came')
    wait_for(lambda: all(is_over(connection) for connection in held), 'kept for ever')
    for connection in held:
        connection.close()


@case
def a_refusal_comes_before_the_body_for_who_waits_for_it():
    with contextlib.closing(connect(three()[0], 0)) as connection:
        connection.sendall(ENDLESS % b'Expect: 100-continue\r\n')
        said = connection.recv(4096)
        check(said.startswith(b'HTTP/1.1 401'), '%s', said)


@case
def a_tenant_that_fills_all_places():
    idle = b'GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n%s\r\n' % bearer('a')
    rack, api = three()
    for data in (idle, ENDLESS % bearer('a')):
        began = time.monotonic()
        with full(api, data) as held:
            for name in ('root', 'b', 'root', 'b'):
                check(hears(rack, name), '%s is kept out by %s', name, data)
            lost = sum(is_over(connection) for connection in held)
            check(lost <= 4 or time.monotonic() - began >= IDLE_S, '%d were closed for 4', lost)
            # It may itself come again, and somebody else does not pay for it.
            with contextlib.closing(connect(rack, 200)) as b:
                b.sendall(idle.replace(b'Bearer a', b'Bearer b'))
                check(b.recv(1000).startswith(b'HTTP/1.1 200'), 'b')
                for _ in range(3):
                    check(hears(rack, 'a', 201), 'a is kept out by itself')
                check(not is_over(b), 'another tenant made room')


def crowd_of_a_user(path, say):
    """In a child: the Unix socket full of a user of its group, who is no administrator."""
    os.setgroups([])
    os.setgid(grp.getgrnam('daemon').gr_gid)
    os.setuid(1)
    held = []
    for _ in range(PLACES):
        held.append(socket.socket(socket.AF_UNIX))
        held[-1].connect(path)
        held[-1].sendall(ENDLESS % bearer('a'))
    os.write(say, b'full')
    signal.pause()


@case
def a_user_of_the_sockets_group():
    try:
        grp.getgrnam('daemon')
    except KeyError:
        raise Skip('no group daemon') from None
    _, api = three()
    hear, say = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            crowd_of_a_user(api.path, say)
        os._exit(0)
    os.close(say)
    try:
        check(os.read(hear, 4) == b'full', 'the socket could not be filled')
        for _ in range(3):
            check(api.unix('GET', '/v1/jobs').status == 200, 'root is kept out')
    finally:
        os.close(hear)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


UNIT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'configs', 'systemd',
                    'weir-switch@.service.in')


@case
def the_sockets_group_with_what_the_unit_leaves_of_root():
    with open(UNIT) as file:
        caps = re.search(r'^CapabilityBoundingSet=(.*)$', file.read(), re.M).group(1)
    kept = ['-all'] + ['+' + cap[len('CAP_'):].lower() for cap in caps.split()]
    with Rack() as rack:
        api = Control(rack, socket_group='daemon')
        path = rack.write_config()
        rack.switch = rack.spawn('sw', [
            'setpriv', '--bounding-set', ','.join(kept), '--inh-caps=-all', '--no-new-privs',
            rack.program(('switch', 'weir-switch')), '-c', path,
            '--stats-file', rack.stats_file], 'switch')
        rack.switch.wait_line('weir-switch: ready', 30)
        found = os.stat(api.path)
        check(found.st_gid == grp.getgrnam('daemon').gr_gid and found.st_mode & 0o777 == 0o660,
              '%s', found)
        rack.stop_switch()


def calls_of(name, sets):
    """The system calls of a filter's word, such as @chown."""
    if not name.startswith('@'):
        return {name}
    return set().union(*(calls_of(word, sets) for word in sets[name]))


@case
def the_system_calls_that_the_unit_leaves():
    try:
        said = subprocess.run(['systemd-analyze', 'syscall-filter'], check=True, text=True, timeout=120,
                              stdout=subprocess.PIPE).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise Skip('no systemd-analyze') from None
    sets = {lines[0]: [line.strip() for line in lines[1:] if not line.strip().startswith('#')]
            for lines in (part.split('\n') for part in said.strip().split('\n\n'))
            if lines[0].startswith('@')}
    allowed = set()
    with open(UNIT) as file:
        for sign, words in re.findall(r'^SystemCallFilter=(~?)(.*)$', file.read(), re.M):
            calls = set().union(*(calls_of(word, sets) for word in words.split()))
            allowed = allowed - calls if sign else allowed | calls
    check({'chown', 'fchownat', 'bind', 'chmod'} <= allowed, '%s', sorted(allowed))
    check(not {'setuid', 'keyctl', 'bpf', 'mount', 'chroot'} & allowed, '%s', sorted(allowed))


@case
def a_reload_forgets_who_is_no_tenant_any_more():
    rack, api = three()
    with contextlib.closing(connect(rack, 0)) as gone, \
         contextlib.closing(connect(rack, 1)) as stays:
        for connection, name in ((gone, 'a'), (stays, 'b')):
            connection.sendall(b'GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\n%s\r\n' %
                               bearer(name))
            check(connection.recv(1000).startswith(b'HTTP/1.1 200'), '%s', name)
        rack.changes['api']['tenants'] = [tenant('b'), tenant('root', admin=True)]
        rack.write_config()
        check('configuration reloaded' in answer_to(rack), 'refused')
        with full(api, b'') as _strangers:
            check(hears(rack, 'b'), 'a tenant is kept out')
            check(is_over(gone), 'as if it were a tenant still')
            check(not is_over(stays), 'a tenant made room for strangers')
    check(api.unix('GET', '/v1/health').status == 200, 'it has ended')


if __name__ == '__main__':
    main()
