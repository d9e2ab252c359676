#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Filters that a running switch loads and unloads. Their files are made here, without a compiler for eBPF; the examples are
those of the build, where it has one."""
import contextlib
import os
import random
import re
import shutil
import socket

from control import Control, tenant
from filter_files import BY_PORT, EXIT, code, elf, offer_filters, result
from rack import Rack, job
from tap import Skip, case, check, main, wait_for

PORT = 4791


@contextlib.contextmanager
def switch(files, api=None, **changes):
    """A rack of two hosts and its control API, and the filters' directory."""
    with Rack(hosts=2, jobs=[job(1, 2)], workers=2) as rack:
        rack.changes = dict(changes)
        folder = offer_filters(rack, files)
        yield rack, Control(rack, **(api or {})), folder


def load(api, file, status=201, code_=None, key=None, path='/v1/filters', who=(), **more):
    return api.do('POST', path, {'file': file, **more}, status, code_, key, **dict(who))


def flow(rack, port, count):
    """UDP packets from host 0 to host 1; returns how many come, once one to another port has."""
    with rack.inside(1):
        there = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    with rack.inside(0):
        here = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with contextlib.ExitStack() as stack:
        for each in there + [here]:
            stack.enter_context(each)
        for i, each in enumerate(there):
            each.bind((rack.address(1), port + i))
            each.settimeout(60)
        for _ in range(count):
            here.sendto(b'x' * 20, (rack.address(1), port))
        here.sendto(b'x', (rack.address(1), port + 1))  # behind the others
        there[1].recv(64)
        there[0].setblocking(False)
        came = 0
        with contextlib.suppress(BlockingIOError):
            while there[0].recv(64):
                came += 1
        return came


def shown(api):
    return {f['name']: f for f in api.get('/v1/filters')['filters']}


@case
def a_filter_comes_and_goes():
    swapped = socket.htons(PORT)
    with switch({'by_port.o': elf(BY_PORT), 'named.o': elf(BY_PORT, 'other')}) as (rack, api, _):
        rack.start_switch()
        check(shown(api) == {}, '%s', shown(api))
        check(flow(rack, PORT, 5) == 5, 'without filters')
        made = load(api, 'by_port.o', values=[swapped], ports=['p0'])
        check(made['name'] == 'by_port' and made['ports'] == ['p0'] and made['values'][0] == swapped, '%s', made)
        load(api, 'by_port.o', 409, 'exists')
        check(load(api, 'named.o', section='other')['name'] == 'other', 'the section is its name')
        check(flow(rack, PORT, 5) == 0, 'the filter drops them')
        wait_for(lambda: shown(api)['by_port']['dropped'] == 5, 'the counters')
        found = shown(api)
        check(found['by_port']['counters'] == [5] + 7 * [0] and found['by_port']['passed'] > 0, '%s', found)
        check(found['other']['dropped'] == 0 and found['other']['passed'] > 0, '%s', found)
        metrics = api.unix('GET', '/metrics').text.decode()
        check(re.search(r'^weir_filter_packets_total\{filter="by_port",result="dropped"\} 5$', metrics, re.M), '%s', metrics)
        check(api.get('/v1/counters')['drops']['filter'] == 5, 'the reason of the drops')
        check(api.do('DELETE', '/v1/filters/by_port?dry_run=1')['state'] == 'gone', 'dry')
        api.do('DELETE', '/v1/filters/by_port')
        api.do('DELETE', '/v1/filters/by_port', status=404, code='unknown_filter')
        check(flow(rack, PORT, 5) == 5, 'without the filter')
        check(list(shown(api)) == ['other'], '%s', shown(api))
        rack.check_packets()
        rack.stop_switch()  # with a filter


@case
def weirctl_loads_lists_and_unloads():
    with switch({'by_port.o': elf(BY_PORT)}) as (rack, api, _):
        rack.start_switch()

        def weirctl(*words, status=0):
            run = rack.spawn('sw', [rack.program(('ctl', 'weirctl')), '-s', 'unix:' + api.path, 'filter', *words])
            check(run.end(60) == status, '%s: %s', words, run.output)
            return run.output

        check('by_port' in weirctl('load', 'by_port.o', '--values', '1,2', '--ports', 'p0,p1', '--programs', 'forward'), 'load')
        out = weirctl('list')
        check(re.search(r'^by_port +p0; p1 +forward +', out, re.M), '%s', out)
        check('no port' in weirctl('load', 'by_port.o', '--ports', 'p9', status=1), 'a wrong port')
        weirctl('unload', 'by_port')
        check('by_port' not in weirctl('list'), 'unload')
        rack.stop_switch()


@case
def hostile_files_are_refused():
    good = elf(BY_PORT)
    draw = random.Random(35)
    files = {'good.o': good, 'empty.o': b'', 'text.o': b'#!/bin/sh\n' * 50, 'large.o': bytes(300000),
             'noise.o': b'\x7fELF\x02\x01\x01' + draw.randbytes(2000), 'section.o': elf(BY_PORT, 'xdp'),
             'symbols.o': elf(BY_PORT, relocated=True), 'no_end.o': elf(BY_PORT[:-8]), 'none.o': elf(b''),
             'loop.o': elf(code(result(0), (0x05, 0, 0, -2, 0))),
             'beyond.o': elf(code((0x79, 0, 1, 0, 0), (0x07, 1, 0, 0, 40000), (0x79, 0, 1, 0, 0), EXIT)),
             'call.o': elf(code((0x85, 0, 0, 0, 7), EXIT)), 'wide.o': elf(code(result(1), (0x67, 0, 0, 0, 300), EXIT)),
             # 30 branches one after the other: a thousand million paths
             'paths.o': elf(code((0x69, 2, 1, 4, 0), result(0), *30 * [(0x55, 2, 0, 1, 1), (0x07, 0, 0, 0, 1)], EXIT))}
    for n in range(0, len(good), 7):
        files['cut%d.o' % n] = good[:n]
    for n in range(200):
        bad = bytearray(good)
        for _ in range(draw.randint(1, 8)):
            bad[draw.randrange(len(bad))] = draw.randrange(256)
        files['bad%d.o' % n] = bytes(bad)
    with open('/bin/true', 'rb') as true:
        files['true.o'] = true.read()[:200000]
    why = {'empty': 'no ELF', 'text': 'no ELF', 'large': 'too large', 'true': 'no object file for eBPF', 'section': 'no code in',
           'symbols': 'outside of the filter', 'no_end': 'leaves the code', 'none': 'no instructions', 'loop': 'has a loop',
           'beyond': 'memory boundary violation', 'call': 'invalid external function', 'wide': 'shifts by more bits',
           'paths': 'too many branches'}
    with switch(files) as (rack, api, folder):
        rack.start_switch()
        for name, text in why.items():
            message = load(api, name + '.o', 400, 'out_of_range', 'file')['error']['message']
            check(text in message, '%s: %s', name, message)
        for name in files:
            if name.startswith('cut') or name == 'noise.o':
                load(api, name, 400, 'out_of_range', 'file')
        # Some damage is none; no other filter may come of it than one that the verifier has seen.
        for name in (n for n in files if n.startswith('bad')):
            answer = api.unix('POST', '/v1/filters', {'file': name})
            check(answer.status in (201, 400), '%s: %s', name, answer.text)
            if answer.status == 201:
                api.do('DELETE', '/v1/filters/' + name[:-2])
        load(api, '../good.o', 400)
        load(api, 'good.so', 400, 'out_of_range', 'file')
        load(api, 'good.o', 400, 'out_of_range', 'ports[1]', ports=['p0', 'p9'])
        load(api, 'good.o', 400, 'out_of_range', 'programs', programs=['nothing'])
        os.chmod(os.path.join(folder, 'good.o'), 0o666)
        load(api, 'good.o', 400, 'out_of_range', 'file')
        os.chmod(os.path.join(folder, 'good.o'), 0o644)
        check(load(api, 'good.o', path='/v1/filters?dry_run=1')['dry_run'], 'dry')
        check(shown(api) == {}, 'nothing is loaded: %s', shown(api))
        check(flow(rack, PORT, 3) == 3, 'packets flow')
        rack.check_packets()
        rack.stop_switch()


@case
def an_administrator_may_load_over_tcp():
    with switch({'a.o': elf(BY_PORT)}, api={'tenants': [tenant('root', admin=True), tenant('vision')]}) as (rack, api, _):
        rack.start_switch()
        load(api, 'a.o', 403, 'forbidden', who={'token': 'vision'})
        load(api, 'a.o', who={'token': 'root'})
        api.do('GET', '/v1/filters', status=403, code='forbidden', token='vision')
        rack.stop_switch()


@case
def the_configuration_loads_filters():
    swapped = socket.htons(PORT)
    with switch({'a.o': elf(BY_PORT)}, filters=[{'file': 'a.o', 'values': [swapped]}]) as (rack, api, _):
        rack.start_switch()
        check(flow(rack, PORT, 3) == 0, 'it drops')
        check(list(shown(api)) == ['a'], '%s', shown(api))
        rack.stop_switch()
    for entry, place in (({'file': 'b.o'}, 'filters[0].file: '), ({'file': 'a.o', 'ports': ['p9']}, 'filters[0].ports[0]: no port'),
                         ({'file': 'a.o', 'section': 'none'}, 'filters[0].file: a.o, section none: it has no code')):
        with switch({'a.o': elf(BY_PORT)}, filters=[entry]) as (rack, _, _):
            path = rack.write_config()
            for option in ('--check', None):
                run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', path, *([option] if option else [])])
                check(run.end(60) == 2, 'status')
                check(re.search(r'switch\.json:\d+:\d+: ' + re.escape(place), run.output), '%s', run.output)
    with switch({'a.o': elf(code((0x85, 0, 0, 0, 7), EXIT))}, filters=[{'file': 'a.o'}]) as (rack, _, _):
        run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', rack.write_config()])
        check(run.end(60) == 1 and "filter a: DPDK's verifier refuses it: invalid external function" in run.output, '%s', run.output)


@case
def the_examples_do_what_they_say():
    folder = os.path.join(os.environ['WEIR_BUILD'], 'configs', 'filters')
    if not os.path.exists(os.path.join(folder, 'sampler.o')):
        raise Skip('there is no clang to build them')
    with switch({}) as (rack, api, there):
        for name in ('sampler', 'limit', 'lossy'):
            shutil.copy(os.path.join(folder, name + '.o'), there)
            os.chmod(os.path.join(there, name + '.o'), 0o644)
        rack.start_switch()
        load(api, 'lossy.o', values=[PORT, 250000, 7])
        came = flow(rack, PORT, 100)
        check(40 < came < 100, '%d came', came)
        wait_for(lambda: shown(api)['lossy']['counters'][:2] == [100 - came, 100], 'counters: %s', lambda: shown(api), seconds=30)
        api.do('DELETE', '/v1/filters/lossy')
        load(api, 'sampler.o', values=[10], ports=['p0'])
        check(flow(rack, PORT, 100) == 100, 'a sampler drops nothing')
        wait_for(lambda: shown(api)['sampler']['counters'][0] >= 10, 'samples: %s', lambda: shown(api), seconds=30)
        api.do('DELETE', '/v1/filters/sampler')
        load(api, 'limit.o', values=[2], ports=['p0'])
        check(flow(rack, PORT, 1) == 1, 'it and the one behind it are a second\'s worth')
        with rack.inside(0), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as here:
            for _ in range(100):
                here.sendto(b'x', (rack.address(1), PORT))
        wait_for(lambda: shown(api)['limit']['counters'][0] > 0, 'nothing is dropped: %s', lambda: shown(api), seconds=30)
        rack.stop_switch()


if __name__ == '__main__':
    main()
