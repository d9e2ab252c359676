#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon's manners: its command line, what it says when the machine lacks something, its
statistics, its exception interface, its end."""
import fcntl
import json
import os
import re
import select
import signal
import socket
import time

from control import Control
from tap import case, check, main, wait_for
from process import cpu_seconds
from rack import SWITCH_ADDRESS, SWITCH_MAC, Rack, job


def says(run, status, line):
    """A run ends with this status, and one line of its output matches, at its begin."""
    found = run.end(15)
    check(found == status, 'exit status %s, not %d\n%s', found, status, run.output)
    check(re.search('^' + line, run.output, re.M), '"%s" is not in:\n%s', line, run.output)


def start(rack, changes=None, place='sw'):
    """weir-switch with a configuration that is the rack's but for `changes`."""
    rack.changes = changes or {}
    return rack.spawn(place, [rack.program(('switch', 'weir-switch')), '-c', rack.write_config()])


F_SETPIPE_SZ = 1031  # Python knows it by name since 3.10


def read_until(fd, words, seconds):
    """What a pipe that does not block has, until these words; b'': until it has no more."""
    text, until = b'', time.monotonic() + seconds
    while words not in text if words else True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([fd], [], [], left)[0]:
            check(not words, 'no %s in %s', words, text)
            break
        text += os.read(fd, 1 << 16)
    return text


@case
def the_command_line():
    with Rack(hosts=1) as rack:
        program = rack.program(('switch', 'weir-switch'))

        def run(*options):
            return rack.spawn('sw', [program] + list(options))

        says(run('--version'), 0, r'weir-switch \d+\.\d+\.\d+$')
        says(run('--help'), 0, 'Usage: weir-switch')
        says(run('--keys'), 0, r'\| `jobs\[\]\.window` \| power of two \| blocks \|')
        says(run(), 2, 'weir-switch: -c FILE is missing')
        says(run('-c', 'x', 'y'), 2, 'weir-switch: Too many arguments')
        says(run('--surprise'), 2, 'weir-switch: unrecognized option')


@case
def what_the_machine_lacks_is_said_in_a_line():
    with Rack(hosts=2, jobs=[job(1, 2, elements=256)]) as rack:
        says(start(rack, {'workers': {'cpus': [1000]}}), 1,
             r'weir-switch: workers\.cpus: this process may not use CPU 1000')
        says(start(rack, place=0), 1,
             'weir-switch: interface p0 of port p0 does not exist: create it, or start')
        says(start(rack, {'exception': {'interface': 'lo'}}), 1,
             'weir-switch: exception.interface: lo exists already')
        rack._ip_in('sw', 'link set p1 mtu 1000')
        says(start(rack), 1, 'weir-switch: job job1: 256 elements make datagrams of 1068 bytes, and interface p1 of port '
             'p1 has MTU 1000: ip link set dev p1 mtu 1068, or fewer elements')
        rack._ip_in('sw', 'link set p1 mtu 1500 down')
        says(start(rack), 1, 'weir-switch: interface p1 of port p1 is down')


@case
def an_interface_belongs_to_one_switch():
    with Rack(hosts=2) as rack:
        first = rack.start_switch()
        for _ in range(2):
            says(start(rack), 1, r'weir-switch: interface p0 of port p0 belongs to another '
                 r'running switch, process %d: stop that switch' % first.pid)
        first.signal(signal.SIGKILL)
        first.end(15)
        rack.start_switch()  # its claim ended with it
        rack.ping(0, SWITCH_ADDRESS)


@case
def a_socket_of_a_port():
    """Of a device that makes one: not in another process's way, and in place of one that nobody serves."""
    with Rack(hosts=1) as rack:
        path = os.path.join(rack.folder, 'vhost.sock')
        port = {'ports': [{'name': 'v0', 'device': 'net_vhost0,iface=' + path}]}
        open(path, 'w').close()
        says(start(rack, port), 1, 'weir-switch: %s of port v0 exists and is no socket' % path)
        os.unlink(path)
        for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            with socket.socket(socket.AF_UNIX, kind) as other:
                other.bind(path)
                other.listen()
                says(start(rack, port), 1, 'weir-switch: socket %s of port v0 belongs to another running process' % path)
                check(os.path.exists(path), 'the socket of another process is gone')
            if kind == socket.SOCK_STREAM:
                os.unlink(path)
        rack.changes = port
        rack.start_switch()
        rack.stop_switch()


@case
def what_the_kernel_does_to_packets_is_said():
    with Rack(hosts=2) as rack:
        said = rack.start_switch().output
        check('warning' not in said, '%s', said)
        rack.stop_switch()
        rack._ip_in('sw', 'link set p1 arp on')
        rack.call('sw', ['ethtool', '-K', 'p0', 'gro', 'on'])
        said = rack.start_switch().output
        check(re.findall(r'^weir-switch: warning: interface (p\d) of port p\d .*: (.*)$', said, re.M) ==
              [('p0', 'ethtool -K p0 gro off lro off'),
               ('p1', 'ip link set dev p1 arp off, or sysctl net.ipv4.conf.p1.arp_ignore=1')], '%s', said)
        rack.stop_switch()
        # Each of the cures helps.
        rack.call(1, ['ip', 'neighbour', 'flush', 'dev', 'eth0'])
        for cure in (['ethtool', '-K', 'p0', 'gro', 'off', 'lro', 'off'],
                     ['sh', '-c', 'echo 1 >/proc/sys/net/ipv4/conf/p1/arp_ignore']):
            rack.call('sw', cure)
        said = rack.start_switch().output
        check('warning' not in said, '%s', said)
        rack.ping(1, SWITCH_ADDRESS)
        shown = rack.call(1, ['ip', 'neighbour', 'show', SWITCH_ADDRESS])
        check(SWITCH_MAC in shown, '%s', shown)
        rack.stop_switch()


@case
def without_privileges_one_line_tells_what_to_do():
    with Rack(hosts=2) as rack:
        os.chmod(rack.folder, 0o755)
        run = rack.spawn('sw', ['setpriv', '--bounding-set=-net_raw', '--inh-caps=-net_raw',
                                rack.program(('switch', 'weir-switch')), '-c',
                                rack.write_config()])
        says(run, 1, 'weir-switch: port p0 needs CAP_NET_RAW')


@case
def an_unknown_driver_is_named():
    with Rack(hosts=2) as rack:
        run = start(rack, {'ports': [{'name': 'p0', 'device': 'net_surprise0'}]})
        says(run, 1, 'weir-switch: DPDK does not start')


@case
def it_has_the_switch_s_addresses_sleeps_and_tells_statistics():
    """On a signal, and at the end. Control thread and worker together take a small part of a CPU; a busy machine makes it
    smaller."""
    with Rack(hosts=2, jobs=[job(7, 2)]) as rack:
        switch = rack.start_switch()
        check(os.getsid(switch.pid) == switch.pid, 'the switch is in session %d', os.getsid(switch.pid))
        shown = json.loads(rack.call('sw', ['ip', '-j', 'address', 'show', 'dev', 'weir0']))[0]
        check(shown['address'] == SWITCH_MAC and 'UP' in shown['flags'], '%s', shown)
        found = [(a['local'], a['prefixlen']) for a in shown['addr_info'] if a['family'] == 'inet']
        check(found == [(SWITCH_ADDRESS, 24)], 'addresses %s', found)
        rack.ping(0, SWITCH_ADDRESS)
        before, began = cpu_seconds(switch.pid), time.monotonic()
        time.sleep(1)  # of which it takes a share
        share = (cpu_seconds(switch.pid) - before) / (time.monotonic() - began)
        check(share < 0.5, 'an idle switch took %.0f %% of a CPU', 100 * share)
        now = rack.check_packets()
        check([p['name'] for p in now['ports']] == ['p0', 'p1', 'exception'], '%s', now['ports'])
        check(now['jobs'][0]['id'] == 7 and now['balanced'] is True, '%s', now)
        check('leaks' not in now, 'leaks of a running switch: %s', now)
        for number in (signal.SIGUSR1,) * 3:
            switch.signal(number)
        end = rack.stop_switch()
        check(re.search(r'^received \d+ \+ created \d+ = .*: balanced$', switch.output, re.M), '%s', switch.output)
        check(end['received'] >= now['received'], 'counters went back: %s', end)
        left = [n for n in os.listdir(rack.folder) if n.startswith('stats.json.')]
        check(not left, 'left behind: %s', left)
        check('weir0' not in rack.call('sw', ['ip', 'link']), 'weir0 is still there')


@case
def who_does_not_read_holds_nobody_up():
    """A report goes to a pipe that is full: the control API answers, and the switch ends."""
    with Rack(hosts=2, jobs=[job(1, 2)]) as rack:
        api = Control(rack)
        path = os.path.join(rack.folder, 'out')
        os.mkfifo(path)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        try:
            program = rack.program(('switch', 'weir-switch'))
            run = rack.spawn('sw', ['sh', '-c', 'exec "$0" -c "$1" >"$2"', program,
                                    rack.write_config(), path])
            read_until(reader, b'weir-switch: ready\n', 300)
            fcntl.fcntl(reader, F_SETPIPE_SZ, 4096)
            def full():
                run.signal(signal.SIGUSR1)
                check(api.unix('GET', '/v1/health').status == 200, 'not healthy')
                return 'statistics were not printed whole' in run.output

            wait_for(full, 'the pipe is not full:\n%s', lambda: run.output)
            # Somebody reads again: the next report is whole, and begins a line.
            read_until(reader, b'', 1)
            fcntl.fcntl(reader, F_SETPIPE_SZ, 1 << 16)
            run.signal(signal.SIGUSR1)
            text = read_until(reader, b'\njob ', 300)
            check(text.startswith(b'\nport '), '%s', text)
            fcntl.fcntl(reader, F_SETPIPE_SZ, 4096)
            for _ in range(5):
                run.signal(signal.SIGUSR1)
                check(api.unix('GET', '/v1/health').status == 200, 'not healthy')
            run.signal(signal.SIGTERM)
            check(run.end(10) == 0, '%s', run.output)
        finally:
            os.close(reader)


if __name__ == '__main__':
    main()
