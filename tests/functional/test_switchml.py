#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""SwitchML's workers at a switch that loads the program switchml, and the session service that comes with it."""
import contextlib
import os
import shutil
import socket
import sys
import threading

from control import Control
from ctl import ctl, good
from rack import SWITCH_ADDRESS, SWITCH_MAC, Rack, job
from switchml_worker import Worker
from tap import Skip, case, check, main, table, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
SESSIONS = '127.0.0.1:50099'


@contextlib.contextmanager
def switch(hosts, workers=2):
    """A rack whose switch has the program's files; and its control API."""
    with Rack(hosts=hosts, jobs=[job(1, hosts)], workers=workers) as rack:
        folder = os.path.join(rack.folder, 'programs')
        os.mkdir(folder, 0o755)
        for path, mode in ((os.path.join(os.environ['WEIR_BUILD'], 'ppe', 'switchml.so'), 0o644),
                           (os.path.join(HERE, '..', '..', 'ppe', 'programs', 'weir-switchml-sessions'), 0o755)):
            shutil.copy(path, folder)
            os.chmod(os.path.join(folder, os.path.basename(path)), mode)
        rack.changes = {'program_directory': folder}
        api = Control(rack)
        rack.start_switch()
        yield rack, api
        rack.check_packets()
        rack.stop_switch()


def load(api, **settings):
    settings.setdefault('sessions', SESSIONS)
    return api.do('POST', '/v1/programs', {'file': 'switchml.so', 'settings': settings}, 201)


def unload(api):
    api.do('DELETE', '/v1/programs/switchml', status=(200, 202))
    wait_for(lambda: 'switchml' not in [p['name'] for p in api.get('/v1/programs')['programs']], 'it does not go')


def start(rack, hosts, *options):
    return [rack.spawn(host, [sys.executable, os.path.join(HERE, 'switchml_worker.py'), '--rank', str(rank), '--workers',
                              str(len(hosts)), *options, SWITCH_ADDRESS], 'worker') for rank, host in enumerate(hosts)]


def finish(runs):
    for run in runs:
        run.wait(300)
        check(' 0 wrong' in run.output, '%s', run.output)


def sums(hosts, elements=256, exponents='before', loss=0.0, workers=2, times=1):
    with switch(hosts, workers) as (rack, api):
        good(ctl('unix:' + api.path, 'program', 'load', 'switchml.so', 'workers=%d' % hosts, 'elements=%d' % elements,
                 'exponents=' + exponents, 'sessions=' + SESSIONS))
        finish(start(rack, range(hosts), '--elements', str(elements), '--loss', str(loss), '--times', str(times),
                     *(['--after'] if exponents == 'after' else [])))
        shown = api.get('/v1/programs/switchml')
        check(shown['counters']['switchml_sums'] >= times * (100000 // elements), '%s', shown['counters'])
        check(not loss or shown['counters']['switchml_repeated'] > 0, '%s', shown['counters'])
        rows = {row['ip']: row for row in shown['tables'][0]['rows']}
        check(set(rows) == {rack.address(h) for h in range(hosts)}, '%s', rows)
        check(all(rows[rack.address(h)]['mac'] == rack.mac(h) for h in range(hosts)), '%s', rows)


table(sums,
      two_workers_with_loss={'hosts': 2, 'loss': 0.02, 'workers': 1, 'times': 2},
      three_workers_with_loss={'hosts': 3, 'loss': 0.02, 'elements': 64, 'exponents': 'after'})


@case
def beside_a_job_while_programs_come_and_go():
    with switch(2) as (rack, api):
        perf = [rack.perf(h, 1, '-b', '64K', '-e', '64K', '-n', '40', source=h) for h in range(2)]
        for _ in range(2):
            load(api, workers=2)
            finish(start(rack, (1, 0), '--count', '20000'))
            unload(api)
        for run in perf:
            run.wait(300)


# ---- sessions

def varints(data):
    numbers, number, shift = [], 0, 0
    for byte in data:
        number, shift = number | (byte & 127) << shift, shift + 7
        if byte < 128:
            numbers.append(number)
            number = shift = 0
    return {key >> 3: value for key, value in zip(numbers[::2], numbers[1::2])}


def message(**fields):
    data = b''
    for name, value in fields.items():
        for number in (int(name[1:]) << 3, value):
            while number > 127:
                data += bytes([number & 127 | 128])
                number >>= 7
            data += bytes([number])
    return data


@case
def a_session_as_the_public_client_begins_it():
    try:
        import grpc
    except ImportError:
        raise Skip('needs python3-grpcio')
    with switch(2) as (rack, api):
        load(api, workers=2)
        reached = {}
        with rack.inside('sw'):
            wait_for(lambda: socket.socket().connect_ex(('127.0.0.1', 50099)) == 0, 'no session service')

        def client(rank, workers=2, size=3):
            with rack.inside('sw'):
                channel = grpc.insecure_channel(SESSIONS)

                def call(method, **fields):
                    return varints(channel.unary_unary('/switchml_proto.' + method)(message(**fields), timeout=60,
                                                                                    wait_for_ready=True))
                session = call('Sync/Broadcast', f1=2**63 + 12345 if rank == 0 else 0, f2=rank, f3=2, f4=0)[1]
                asked = {'f1': session, 'f2': rank, 'f3': workers, 'f4': 2**41, 'f5': 2**31, 'f7': size}
                try:
                    if rank == 0:
                        reached[rank] = call('Session/UdpSession', **asked)
                    call('Sync/Barrier', f1=2)
                    if rank != 0:
                        reached[rank] = call('Session/UdpSession', **asked)
                    call('Sync/Barrier', f1=2)
                except grpc.RpcError as error:
                    reached[rank] = error.details()
                channel.close()

        def together(**more):
            threads = [threading.Thread(target=client, args=(rank,), kwargs=more) for rank in range(2)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(120)
            check(len(reached) == 2, '%s', reached)

        # Workers that have gone do not count: neither in a barrier, nor as a rank of a broadcast.
        with rack.inside('sw'), grpc.insecure_channel(SESSIONS) as channel:
            for method, fields in (('Barrier', {'f1': 2}), ('Broadcast', {'f2': 1, 'f3': 2})):
                for _ in range(2):
                    try:
                        channel.unary_unary('/switchml_proto.Sync/' + method)(message(**fields), timeout=0.5)
                        check(False, '%s ends', method)
                    except grpc.RpcError as error:
                        check(error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, '%s', error)
        for turn in range(3):
            reached.clear()
            together()
            ip = int.from_bytes(socket.inet_aton(SWITCH_ADDRESS), 'big')
            wanted = {1: 2**63 + 12345, 2: int(SWITCH_MAC.replace(':', ''), 16), 3: ip}
            check(reached == {0: wanted, 1: wanted}, '%s', reached)
            # A worker that stops in the middle of a sum leaves a contribution: the next session does not have it.
            finish(start(rack, (turn % 2, 1 - turn % 2), '--count', '5000'))
            with rack.inside(0):
                worker = Worker(SWITCH_ADDRESS)
            for slot in range(128):
                worker.put(worker.pack(0, slot % 64 | slot // 64 << 15, [7] * 256))
        counters = api.get('/v1/programs/switchml')['counters']
        check(counters['switchml_sessions'] >= 2, '%s', counters)
        with rack.inside('sw'):
            for fields, text in (({'f3': 3, 'f7': 3}, '`workers` 2'), ({'f3': 2, 'f7': 1}, '`elements` 256')):
                with grpc.insecure_channel(SESSIONS) as channel:
                    try:
                        channel.unary_unary('/switchml_proto.Session/UdpSession')(message(**fields), timeout=60)
                        check(False, 'accepted')
                    except grpc.RpcError as error:
                        check(error.code() == grpc.StatusCode.INVALID_ARGUMENT and text in error.details(), '%s', error)
        unload(api)
        with rack.inside('sw'):
            wait_for(lambda: socket.socket().connect_ex(('127.0.0.1', 50099)) != 0, 'the session service stays')


if __name__ == '__main__':
    main()
