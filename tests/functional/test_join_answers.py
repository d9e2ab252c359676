#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What hosts that join through the control API say when it refuses, lies, or is not there; and what they keep of answers."""
import base64
import re
import socket
import ssl
import tempfile
import threading

from control import make_certificate
from fake_api import FakeApi, drip
from join_hosts import PERF, PORT, SHORT, Ended, Members, answer, environment, error, fails, start
from tap import case, check, main, seed
from rack import SWITCH_ADDRESS, Rack


@case
def a_switch_that_is_not_there():
    with Rack(hosts=2) as rack:  # links, and no switch
        run = rack.spawn(0, [PERF, *SHORT, '--join-timeout', '1000'], 'perf', environment(
            rank=0, size=2, WEIR_SWITCH='http://%s:%d' % (SWITCH_ADDRESS, PORT), WEIR_JOB='ring'))
        out = run.wait(60, 1)
        check(re.search(r'(No route to host|for \d+ ms)', out), '%s', out)
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        run = Ended(start('http://127.0.0.1:%d' % free.getsockname()[1]))
        fails(run, 'Connection refused', 'is the switch running', 'api.listen')
        free.listen(8)  # takes connections and says nothing
        run = Ended(start('http://127.0.0.1:%d' % free.getsockname()[1], '--join-timeout', '700'))
        fails(run, r'no answer .* for \d+ ms')
        run = Ended(start('http://127.0.0.1:%d' % free.getsockname()[1], '--join-timeout', '4500'))
        check(re.search(r"^weir: still waiting: the switch's control API at \S+ has not answered for \d+ ms", run.err),
              '%s', run.err)
    for address in ('unix:/nowhere/at.all', '/nowhere/at.all', 'unix:nowhere'):  # as weirctl does
        fails(Ended(start(address)), 'No such file', 'is the switch running')
    fails(Ended(start('unix:')), 'none of')
    fails(Ended(start('10.77.0.254')), 'none of http://')
    fails(Ended(start('http://127.0.0.1:99999')), 'control address')


@case
def what_is_not_known_is_asked_for():
    with FakeApi(tcp=True) as api:
        Members(api, 2)
        fails(Ended(start(api.address, WEIR_JOB='')), 'which job', 'WEIR_JOB')
        fails(Ended(start(api.address, rank=None)), 'which rank', 'mpirun')
        fails(Ended(start(api.address, rank=2)), r'rank 2 \(\S+\) of a job of 2 ranks \(\S+\): they are 0\.\.1$')
        fails(Ended(start(api.address, WEIR_TOKEN_FILE='/nowhere')), '/nowhere: No such file')
        fails(Ended(start(api.address, WEIR_TOKEN='a b')), 'blanks')
        check(not api.asked, 'asked although it knew better: %s', api.asked)


@case
def refusals():
    with FakeApi(tcp=True) as api:
        Members(api, 2)
        api.routes['/v1/status']['address'] = '127.0.0.1'

        def refused(said, *patterns, **options):
            api.routes['/v1/jobs/ring/members'] = said
            fails(Ended(start(api.address)), *patterns, **options)

        refused(error(401, 'unauthorized'), "wants a token, the tenant's or this rank's: WEIR_TOKEN_FILE")
        refused(error(404, 'unknown_job'), 'weirctl job create', 'weir-perf --create')
        refused(error(409, 'conflict', 'address', 'rank 0 is 10.77.0.9'), '10.77.0.9', 'this rank')
        refused(error(507, 'no_memory', needed={'blocks': 128}, free={'blocks': 100}),
                'blocks 128 needed; blocks 100 free', 'smaller window')
        refused((404, b'<html>not found</html>'), 'not as a switch')
        busy = []

        def later(_handler):
            busy.append(1)
            return error(*((503, 'busy'), (429, 'too_often'), (403, 'quota'))[len(busy) - 1])

        refused(later, 'quota')
        check(len(busy) == 3, 'asked %d times', len(busy))
        check(not [a for a in api.asked if a[0] == 'DELETE'], 'left without having joined')


@case
def answers_that_lie():
    with FakeApi(tcp=True) as api:
        Members(api, 2)
        api.routes['/v1/status']['address'] = '127.0.0.1'

        def lied(said, *patterns, options=()):
            api.routes['/v1/jobs/ring/members'] = said
            fails(Ended(start(api.address, *options)), *patterns)

        for said in (b'', b'[' * 60000, answer(1, 2), answer(0, 2, window=0)):  # all: tests/unit/test_weir_member.c
            lied(said, 'makes no sense')
        lied(b' ' * (1 << 24), 'larger than 64 KiB')
        lied(drip, 'no answer', options=['--join-timeout', '800'])
        # It promises a switch where there is none: the join over UDP has what is left of the time.
        lied(answer(0, 2, switch={'address': '127.0.0.1', 'udp_port': 9, 'udp_port_ext': 10}),
             '127.0.0.1:10 has not answered', options=['--join-timeout', '1000'])
        check(api.asked[-1][:2] == ('DELETE', '/v1/jobs/ring/members/0'), '%s', api.asked[-1])
        api.routes['/v1/status'] = {'address': 3}
        lied(answer(0, 2), 'makes no sense .address in /v1/status')


@case
def leaving_is_bounded():
    """The control API hangs when the member leaves: that holds nobody for long."""
    gone = threading.Event()
    with FakeApi(tcp=True) as api:
        Members(api, 2)
        api.routes['/v1/status']['address'] = '127.0.0.1'
        api.routes['/v1/jobs/ring/members'] = answer(0, 2, switch={
            'address': '127.0.0.1', 'udp_port': 9, 'udp_port_ext': 10})
        api.routes['/v1/jobs/ring/members/0'] = lambda _: gone.wait(120) and None
        run = Ended(start(api.address, '--join-timeout', '700'))
        fails(run, 'has not answered')
        gone.set()
        check('DELETE' in [a[0] for a in api.asked], 'did not try to leave: %s', run)


@case
def trust():
    """A switch behind TLS: only with the right certificate."""
    with tempfile.TemporaryDirectory(prefix='weir-join-') as folder:
        certificate, key = make_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with FakeApi(tcp=True, context=context) as api:
            Members(api, 2)
            api.routes['/v1/status']['address'] = '127.0.0.1'
            api.routes['/v1/jobs/ring/members'] = error(404, 'unknown_job')
            fails(Ended(start(api.address)), 'WEIR_CA')
            check(not api.asked, 'it was asked before it was trusted: %s', api.asked)
            fails(Ended(start(api.address, WEIR_CA=certificate)), 'weirctl job create')
            fails(Ended(start(api.address, '--ca', certificate)), 'weirctl job create')


def memory(pid):
    """What the process may write to, a range at a time."""
    with open('/proc/%d/maps' % pid) as maps, open('/proc/%d/mem' % pid, 'rb', 0) as mem:
        for line in maps:
            found = re.match(r'([0-9a-f]+)-([0-9a-f]+) rw', line)
            if found and '[v' not in line:
                begin, end = (int(n, 16) for n in found.groups())
                if end - begin > 1 << 28:  # a sanitizer's own
                    continue
                mem.seek(begin)
                try:
                    yield line.split()[-1], mem.read(end - begin)
                except OSError:  # a guard
                    continue


@case
def an_answer_leaves_no_key_behind():
    """A host's key is in its memory where packets are signed, and nowhere as it came over HTTP."""
    key = seed().getrandbits(8 * 32).to_bytes(32, 'big')
    digits = base64.b64encode(key)
    with FakeApi(tcp=True) as api:
        api.routes['/v1/status'] = {'address': '127.0.0.1'}
        # A text behind it, too: what was parsed before is written over by nothing.
        for said in (answer(0, 2, key=digits.decode()), dict(key=digits.decode(), more='m' * 20000, **answer(0, 2))):
            # A switch that takes members and answers no join: the host repeats it, with its key.
            udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            udp.bind(('127.0.0.1', 0))
            udp.settimeout(60)
            said['switch'] = {'address': '127.0.0.1', 'udp_port': 9, 'udp_port_ext': udp.getsockname()[1]}
            api.routes['/v1/jobs/ring/members'] = said
            process = start(api.address)
            try:
                udp.recv(2048)  # it has read the answer
                text = [where for where, data in memory(process.pid) if digits[:24] in data]
                used = [where for where, data in memory(process.pid) if b'/members' in data]
            finally:
                udp.close()
                process.kill()
                process.communicate()
            check(used, 'nothing of its memory was seen')
            check(not text, 'the key is in %s', text)


if __name__ == '__main__':
    main()
