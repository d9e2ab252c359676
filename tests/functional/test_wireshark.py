#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""configs/wireshark/weir.lua in tshark: the packets of docs/protocol.md, a rack's, weir-capture's,
and mutilated ones. Each field is compared with what this side reads from the bytes."""
import contextlib
import json
import os
import re
import shutil
import signal
import struct
import tempfile

from perf import reduce
from rack import SWITCH_ADDRESS, Rack, job
from replay import Bench, Datagram, read_pcap
from replay import job as replayed_job
from tap import case, check, main, seed, wait_for
from tshark import ROOT, fields, number, tshark, write_pcap
from wire import (ALLREDUCE, BASE, BARRIER, ERROR, EXTENDED, FP32, INT32, JOIN, MISMATCH, OK, PARTIAL,
                  PROBE, SWITCH_MAC, WAITING, Packet, checksum, frame, header)

CONTRIBUTION, JOINING, RESULT, REPLY, PROBING = 1, 2, 3, 4, 6
HEADER = {'job_id': 'weir.job', 'block_id': 'weir.block', 'gen_id': 'weir.gen',
          'src_id': 'weir.src', 'src_cnt': 'weir.src_cnt', 'grad_cnt': 'weir.grad_cnt',
          'final': 'weir.final', 'degraded': 'weir.degraded', 'status': 'weir.status',
          'collective': 'weir.collective', 'op': 'weir.op', 'dtype': 'weir.dtype',
          'flags': 'weir.flags', 'root': 'weir.root'}
JOIN_FIELDS = ['window', 'options', 'elements', 'sources', 'dtype', 'op', 'more_ports', 'flags', 'timeout_ms', 'group']
MISMATCH_FIELDS = ['field', 'source', 'block', 'other', 'offered']
PARTS = ['weir.element.int', 'weir.element.float', 'weir.bitmap.source', 'weir.nonce', 'weir.form',
         'weir.kind', 'weir.expert.impossible', 'weir.expert.truncated', 'weir.join.setting'] + \
    ['weir.join.' + f for f in JOIN_FIELDS] + ['weir.mismatch.' + f for f in MISMATCH_FIELDS]
EVERYTHING = list(HEADER.values()) + PARTS
LINKS = ['weir.answer_in', 'weir.answer_to', 'weir.time', 'weir.repeats', 'weir.late']


@contextlib.contextmanager
def folder():
    path = tempfile.mkdtemp(prefix='weir-wireshark-')
    try:
        yield path
    finally:
        shutil.rmtree(path)


def rows_of(frames, names, *options):
    """tshark's fields of frames."""
    with folder() as home:
        path = os.path.join(home, 'frames.pcap')
        write_pcap(path, frames)
        return fields(path, names, *options, home=home)


def protocol_page():
    with open(os.path.join(ROOT, 'docs', 'protocol.md')) as file:
        return file.read()


def codes(heading):
    """A table or a list of codes of docs/protocol.md: {code: name}."""
    section = protocol_page().split('\n### %s\n' % heading)[1].split('\n#')[0]
    found = {int(c): n for c, n in re.findall(r'(?:^\| |^|, )(\d+)(?: \|)? ([\w-]+)(?= \||,|$)', section, re.M)}
    check(len(found) >= 5, 'table %s: %s', heading, found)
    return found


def vectors(*ends):
    """The test vectors of the protocol with these ends: [(vector, bytes of the frame)]."""
    with open(os.path.join(ROOT, 'docs', 'vectors.json')) as file:
        found = [(v, bytes.fromhex(v['frame'])) for v in json.load(file)['packets'] if v['end'] in ends]
    check(len(found) >= 10, 'only %d vectors', len(found))
    return found


def code(value, heading):
    """A number, or a code's name in a table, as a number."""
    return value if isinstance(value, int) else {name: c for c, name in codes(heading).items()}[value]


def check_row(row, vector):
    """Every field that the vector names, and 0 for the others."""
    texts, about = vector['header'], vector['name']
    check(number(row, 'weir.form') == (vector['form'] == 'extended'), 'form of %s', about)
    headings = {'status': 'Status', 'collective': 'Collective', 'op': 'Operation', 'dtype': 'Type', 'field': 'Field'}
    for name, field in HEADER.items():
        found = number(row, field)
        if vector['form'] == 'base' and name in ('collective', 'op', 'dtype', 'flags', 'root'):
            check(found is None, '%s in the base form', name)
            continue
        if texts.get('collective') == 'join' and name == 'block_id':
            found = number(row, 'weir.nonce')
        wanted = code(texts.get(name, 0), headings.get(name))
        check(found == wanted, '%s is %s, not %d: %s', name, found, wanted, about)
    kind = 'int' if texts.get('dtype') == 'int32' else 'float'
    check([float(v) for v in row['weir.element.' + kind]] == vector['elements'], '%s: %s', about, row)
    check([int(s) for s in row['weir.bitmap.source']] == vector.get('bitmap', []), 'bitmap of %s', about)
    for part, names in (('join', JOIN_FIELDS), ('mismatch', MISMATCH_FIELDS)):
        wanted = vector.get(part, {})
        for name in names:
            found = row['weir.%s.%s' % (part, name)]
            if name not in wanted:
                check(found == [], '%s of %s: %s', name, about, found)
            elif name == 'group':
                check(found == [wanted[name]], '%s: %s', name, found)
            else:
                check(int(found[0], 0) == code(wanted[name], headings.get(name)), '%s of %s: %s', name, about, found)
    settings = {name: str(value) for name, value in vector.get('settings', {}).items()}
    check(dict(re.match(r'(\S+) (\d+)', text).groups() for text in row['weir.join.setting']) == settings, '%s: %s', about, row)
    check(row['weir.expert.impossible'] == row['weir.expert.truncated'] == [], '%s: %s', about, row)


@case
def vectors_of_the_protocol():
    found = vectors('none')
    # As on a wire, too: what is shorter than 60 bytes is padded.
    short = [(said, data + bytes(60 - len(data))) for said, data in found if len(data) < 60]
    rows = rows_of([data for _, data in found + short], EVERYTHING + ['_ws.col.Info'])
    for row, (said, _) in zip(rows, found + short):
        check_row(row, said)
    infos = [re.sub('^(Late|Repeated) ', '', row['_ws.col.Info'][0]) for row in rows]
    starts = ['Contribution', 'Contribution', 'Result', 'Result', 'Result',
              'Barrier', 'Barrier', 'Result', 'Result', 'Result', 'Result', 'Contribution', 'Contribution',
              'Result', 'Contribution', 'Result', 'Join job', 'Join waiting', 'Join accepted', 'Join accepted',
              'Join job', 'Join accepted', 'Contribution',
              'Join job', 'Join refused', 'Join displaced', 'Status waiting', 'Status waiting', 'Partial result',
              'Partial result', 'Acknowledgement', 'Probe', 'Status waiting', 'Status error', 'Status mismatch', 'Status expired',
              'Status stale', 'Status out-of-window', 'Status unsupported', 'Contribution', 'Contribution',
              'Partial result', 'Contribution', 'Contribution', 'Join job', 'Join waiting', 'Join accepted']
    for info, start in zip(infos, starts):
        check(info.startswith(start), '%s: %s', start, info)
    for place, words in ((starts.index('Status waiting'), 'missing 2'), (10, 'reducescatter sum fp32, 1 of 4 elements'),
                         (12, 'broadcast fp32 root 1, 0 of 3 elements'),
                         (len(found) - 7, 'from switch 4, allreduce sum fp32, 2 elements, of 3 ranks, partial, sources 4-5, 7')):
        check(words in infos[place], '%s: %s', words, infos[place])


@case
def tagged_vectors_of_the_protocol():
    found = vectors('tag')
    rows = rows_of([data for _, data in found],
                   ['weir.tag', 'weir.flags.authenticated', 'weir.join.challenge', 'weir.join.nonce', 'weir.join.count',
                    'weir.join.wrapped_key', 'weir.displaced.port', 'weir.element.float', 'weir.expert.impossible',
                    'weir.expert.truncated'])
    for row, (vector, data) in zip(rows, found):
        about, payload = vector['name'], data[42 + 16:]
        joins = vector['from'] == 'host' and vector['header']['collective'] == 'join'
        check(row['weir.tag'] == [data[-16:].hex()] and row['weir.flags.authenticated'] in (['1'], ['True']), '%s: %s', about, row)
        check(row['weir.expert.impossible'] == row['weir.expert.truncated'] == [], '%s: %s', about, row)
        check(row['weir.join.nonce'] == ([payload[16:32].hex()] if joins else []), '%s: %s', about, row)
        check(row['weir.join.count'] == ([str(payload[35])] if joins else []), '%s: %s', about, row)
        check(len(row['weir.element.float']) == len(vector['elements']), '%s: %s', about, row)
    for challenge, times in ((0xa0, 3), (0xb0, 2)):  # the generation's, and the source's
        check(sum(row['weir.join.challenge'] == [bytes(range(challenge, challenge + 16)).hex()] for row in rows) == times,
              '%s', rows)
    check(sum(row['weir.join.wrapped_key'] != [] for row in rows) == 2, '%s', rows)
    check([row['weir.displaced.port'] for row in rows if row['weir.displaced.port']] == [['40100']], '%s', rows)


@case
def lists_of_settings():
    data = next(data for v, data in vectors('none') if v['name'] == 'Join, accepted, with the list of settings')
    at = 42 + 16 + 16 + 2
    changes = [(14, 0xff), (0, 0), (1, 3), (4, 0x81), (15, 9)]
    rows = rows_of([data[:at + place] + bytes([value]) + data[at + place + 1:] for place, value in changes],
                   ['weir.join.setting', 'weir.expert.impossible'])
    check(rows[0]['weir.join.setting'][-1] == 'setting 127, must be known' and rows[0]['weir.expert.impossible'] == [], '%s', rows[0])
    for row in rows[1:]:
        check(row['weir.expert.impossible'] != [], '%s', row)


@case
def what_disagrees_is_named():
    fields_of = codes('Field')
    frames = [reply(header(1, 5, 0, 7, 0, (ALLREDUCE, 0, FP32, 0, 0), status=MISMATCH) +
                    struct.pack('>BBHBBH', field, 1, 0, 2, 0, 6)) for field in sorted(fields_of)]
    rows = rows_of(frames, ['_ws.col.Info', 'weir.expert.impossible'])
    said = {'collective': ('allreduce', 'allgather'), 'op': ('sum', 'bor'), 'type': ('int8', 'int64')}
    for row, (_, name) in zip(rows, sorted(fields_of.items())):
        wanted = ': %s is %s of source 1, %s of source 2' % ((name,) + said.get(name, ('0', '6')))
        check(wanted in row['_ws.col.Info'][0] and row['weir.expert.impossible'] == [], '%s: %s', wanted, row)


@case
def codes_of_the_protocol_page():
    """Every code, named in the tree as the page names it; the others are impossible."""
    tables = {'weir.collective': ('Collective', 12, 4), 'weir.op': ('Operation', 12, 0),
              'weir.dtype': ('Type', 13, 4)}
    frames, wanted = [], []
    for heading, at, shift in tables.values():
        for value in range(16):
            data = bytearray(header(1, 1, 0, 7, 0, (0, 0, FP32, 0, 0)))
            data[at] = data[at] & (0x0f if shift else 0xf0) | value << shift
            frames.append(frame('10.77.0.1', bytes(data)))
            wanted.append(codes(heading).get(value))
    for value in range(16):
        data = bytearray(header(1, 1, 0, 7, 0, (0, 0, FP32, 0, 0), status=value))
        frames.append(reply(bytes(data)))
        wanted.append(codes('Status').get(value))
    with folder() as home:
        path = os.path.join(home, 'codes.pcap')
        write_pcap(path, frames)
        trees = tshark(path, '-V', '-O', 'weir', home=home).split('\nFrame ')
        rows = fields(path, ['weir.expert.impossible'], home=home)
    check(len(trees) == len(rows) == len(frames) == 64, '%d trees', len(trees))
    for place, (tree, name, row) in enumerate(zip(trees, wanted, rows)):
        label = ['collective', 'op', 'dtype', 'status'][place // 16]
        value = place % 16
        check('%s: %s (%d)' % (label, name or 'Unknown', value) in tree, '%s %d %s: %s', label,
              value, name, tree)
        check(name or row['weir.expert.impossible'], '%s %d is not impossible', label, value)


def reply(data, to='10.77.0.1', extended=True, to_port=40000, **more):
    """A packet from the switch."""
    return frame(SWITCH_ADDRESS, data, port=to_port, destination=to, source_mac=SWITCH_MAC,
                 destination_mac='02:77:00:00:00:01',
                 source_port=EXTENDED if extended else BASE, **more)


def quoted(data):
    """An ICMP error about a frame: who sent this can't be reached."""
    icmp = struct.pack('>BBHI', 3, 3, 0, 0) + data[14:]
    icmp = icmp[:2] + struct.pack('>H', checksum(icmp)) + icmp[4:]
    head = struct.pack('>BBHHHBBH', 0x45, 0, 20 + len(icmp), 1, 0, 64, 1, 0) + data[30:34] + data[26:30]
    head = head[:10] + struct.pack('>H', checksum(head)) + head[12:]
    return data[6:12] + data[:6] + b'\x08\x00' + head + icmp


def contribution(source, block, values=(1, 2), generation=7, extended=True):
    form = (ALLREDUCE if values else BARRIER, 0, INT32, 0, 0) if extended else None
    data = header(1, block, source, generation, len(values), form)
    return frame('10.77.0.%d' % (source + 1), data + struct.pack('<%di' % len(values), *values),
                 port=EXTENDED if extended else BASE, source_port=40000 + source)


def result(source, block, values=(3, 6), sources=3, status=OK, bitmap=None, generation=7):
    data = header(1, block, source, generation, len(values), (ALLREDUCE, 0, INT32, 0, 0),
                  status=status, degraded=int(bitmap is not None), sources=sources)
    data += struct.pack('<%di' % len(values), *values)
    if bitmap is not None:
        data += sum(1 << s for s in bitmap).to_bytes(32, 'little')
    return reply(data, '10.77.0.%d' % (source + 1), to_port=40000 + source)


@case
def links_repeats_and_what_is_late():
    # Each line: the frame, and its links, frames numbered from 1.
    story = [
        (contribution(0, 0), {'answer_in': 6}),
        (contribution(1, 0), {'answer_in': 4}),
        (contribution(1, 0), {'answer_in': 4, 'repeats': 2}),
        (result(1, 0, (), 0, WAITING, [0, 1]), {'answer_to': 3, 'time': .001}),
        (result(2, 0, sources=2, status=PARTIAL, bitmap=[0, 1]), {}),
        (result(0, 0, sources=2, status=PARTIAL, bitmap=[0, 1]), {'answer_to': 1, 'time': .005}),
        (contribution(2, 0), {'late': 6, 'answer_in': 8}),
        (result(2, 0, sources=2, status=PARTIAL, bitmap=[0, 1]), {'answer_to': 7, 'time': .001}),
        (contribution(0, 1), {'answer_in': 12}),
        (quoted(contribution(1, 0)), {}),
        (contribution(0, 0), {'repeats': 1, 'late': 6, 'answer_in': 13}),
        (result(0, 1, (), 0, ERROR, []), {'answer_to': 9, 'time': .003}),
        (result(0, 0, sources=2, status=PARTIAL, bitmap=[0, 1]), {'answer_to': 11, 'time': .002}),
    ]
    # The second packet of the story gets its partial result at last.
    story[1][1]['answer_in'] = 14
    story[2][1]['answer_in'] = 14
    story.append((result(1, 0, sources=2, status=PARTIAL, bitmap=[0, 1]),
                  {'answer_to': 2, 'time': .012}))
    # A result to all, by multicast.
    story += [(contribution(s, 2), {'answer_in': 17}) for s in range(2)]
    story.append((frame(SWITCH_ADDRESS, header(1, 2, 0, 7, 2, (ALLREDUCE, 0, INT32, 0, 0), sources=2) + bytes(8), EXTENDED,
                        '239.77.0.1', SWITCH_MAC, '01:00:5e:4d:00:01', EXTENDED), {'answer_to': 16, 'time': .001}))
    rows = rows_of([data for data, _ in story], LINKS + ['weir.expert.late', 'weir.expert.repeated'], '-2')
    for place, (row, (_, wanted)) in enumerate(zip(rows, story), 1):
        for name in LINKS:
            name = name[5:]
            found = row['weir.' + name]
            check(len(found) == (name in wanted), 'frame %d: %s is %s, not %s', place, name, found,
                  wanted.get(name))
            check(not found or abs(float(found[0]) - wanted[name]) < 1e-6,
                  'frame %d: %s is %s, not %s', place, name, found, wanted.get(name))
        check(bool(row['weir.expert.late']) == ('late' in wanted), 'frame %d: late', place)
        check(bool(row['weir.expert.repeated']) == ('repeats' in wanted), 'frame %d', place)


def check_packets(path, home, *options, dtype=None):
    """Every frame of a capture: tshark's fields are those of Packet. dtype: of the base form."""
    frames = read_pcap(path)
    rows = fields(path, EVERYTHING + ['weir.payload.dtype'], '-o', 'weir.shown:4095', *options,
                  home=home)
    check(len(rows) == len(frames), '%d rows of %d frames', len(rows), len(frames))
    counted = {}
    for data, row in zip(frames, rows):
        if data[12:14] != b'\x08\x00' or data[23] != 17:
            # An ICMP message quotes a packet: a second result that came after the host had closed its port.
            check(row['weir.job'] == [] or data[23] == 1, 'not Weir: %s', row)
            continue
        d = Datagram(data)
        to_switch = d.to_ip == SWITCH_ADDRESS
        extended = (d.to_port if to_switch else d.from_port) == EXTENDED
        p = Packet(d.payload, extended)
        joins = p.collective == JOIN
        wanted = {'job': p.job, 'block': None if joins else p.block, 'gen': p.generation,
                  'nonce': p.block if joins else None, 'src': p.source, 'src_cnt': p.sources,
                  'grad_cnt': p.count, 'final': p.final, 'degraded': p.degraded,
                  'status': p.status, 'collective': p.collective, 'op': p.op, 'dtype': p.dtype,
                  'flags': p.flags, 'root': p.root, 'form': int(extended)}
        for name, value in wanted.items():
            check(number(row, 'weir.' + name) == value, '%s: %s, not %s', name, row, value)
        kind = (JOINING if joins else PROBING if p.collective == PROBE else CONTRIBUTION) if to_switch else \
            REPLY if joins or p.status > PARTIAL else RESULT
        check(number(row, 'weir.kind') == kind, 'kind: %s', row)
        kinds = dtype if p.dtype is None else p.dtype
        letter, field = ('f', 'float') if kinds == FP32 else ('i', 'int')
        # tshark prints 15 digits, more than an fp32 has.
        shown = [float(v) if letter == 'f' else int(v) for v in row['weir.element.' + field]]
        check(struct.pack('<%d%s' % (len(shown), letter), *shown) == p.payload[:4 * p.count],
              '%s elements of %s', field, row)
        if p.degraded:
            check([int(s) for s in row['weir.bitmap.source']] == p.bitmap(), 'bitmap: %s', row)
        check(row['weir.expert.impossible'] == row['weir.expert.truncated'] == [], '%s', row)
        counted[kind] = counted.get(kind, 0) + 1
    return counted


@contextlib.contextmanager
def captured(rack, host, path):
    """dumpcap on a host, until it has written all that passed the host's interface meanwhile."""
    def passed():
        return sum(count for key, count in rack.wire(host).items() if key.endswith('_packets'))

    capture = rack.spawn(host, ['dumpcap', '-q', '-P', '-i', 'eth0', '-a', 'duration:3000', '-w', path])
    capture.wait_line('File:', 20)
    before = passed()
    yield
    count = passed() - before
    wait_for(lambda: os.path.getsize(path) > 24 and len(read_pcap(path)) >= count, '%d packets', count)
    capture.signal(signal.SIGINT)
    capture.wait(10)


@case
def a_rack_as_dumpcap_saw_it():
    with Rack(hosts=3, jobs=[job(1, 3), job(2, 2, type='int32'), job(3, 3, elements=64)]) as rack:
        path, whole, tail = (os.path.join(rack.folder, name) for name in ('eth0.pcap', 'whole.pcap', 'tail.pcap'))
        rack.start_switch()
        with captured(rack, 0, path):
            reduce(rack, 1, range(3), '-b', 8192, '-e', 8192, '-n', 2, '-w', 0, '-d', 'fp32')
            reduce(rack, 2, range(2), '-b', 4096, '-e', 4096, '-n', 2, '-w', 0, '-d', 'int32', '--base-form')
        with captured(rack, 1, whole):
            reduce(rack, 3, range(3), '-C', 'all', '-b', 600, '-e', 600, '-n', 1, '-w', 0, '-r', 1)
        rack.check_packets()
        rack.stop_switch()
        counted = check_packets(path, rack.folder, dtype=INT32)
        check(counted[CONTRIBUTION] >= 2 * (8 + 4) and counted[RESULT] >= 2 * (8 + 4) and
              counted[JOINING] >= 2 and counted[REPLY] >= 2, '%s', counted)
        # The accepted join has told that the base form of job 2 is int32.
        found = fields(path, ['weir.payload.dtype', 'weir.job'], '-Y', 'weir.form == 0 && weir.grad_cnt > 0', home=rack.folder)
        check(found and all((row['weir.payload.dtype'], row['weir.job']) == ([str(INT32)], ['2']) for row in found), '%s', found)
        # What a packet carries of its block is told, with and without a join in the capture.
        joined = fields(whole, ['frame.number'], '-Y', 'weir.kind == 4 && weir.collective == %d' % JOIN, home=rack.folder)
        write_pcap(tail, read_pcap(whole)[max(number(r, 'frame.number') for r in joined):])
        for place in (whole, tail):
            rows = fields(place, ['weir.collective', '_ws.col.Info', 'weir.expert.impossible',
                                  'weir.expert.truncated'], '-Y', 'weir', home=rack.folder)
            check({number(row, 'weir.collective') for row in rows} >= set(range(9)), '%s', rows)
            for row in rows:
                check(row['weir.expert.impossible'] == row['weir.expert.truncated'] == [], '%s', row)
            infos = '\n'.join(row['_ws.col.Info'][0] for row in rows)
            for text in ('allgather fp32, 21 of 63 elements', 'allgather fp32, 42 of 63 elements, of 3',
                         'gather fp32 root 1, 0 of 63 elements', 'gather fp32 root 1, 42 of 63 elements, of 3',
                         'scatter fp32 root 1, 42 of 63 elements', 'alltoall fp32, 14 of 21 elements, of 3',
                         'reducescatter sum fp32, 21 of 63 elements, of 3', 'reduce sum fp32 root 1, 64 elements'):
                check('1, ' + text in infos, '%s: %s', text, infos)


@case
def captures_of_weir_capture():
    with Bench() as bench, folder() as home:
        for form, dtype in (([], 'int32'), (['--extended'], 'fp32')):
            config = bench.configure('testpmd/replay.json', jobs=[replayed_job(3, 33, dtype=dtype)])
            path = bench.path(dtype + '.pcap')
            told = bench.capture('-c', config, '-o', path, '--blocks', 20, *form)
            counted = check_packets(path, home, '-o', 'weir.dtype:' + dtype, dtype={'int32': INT32, 'fp32': FP32}[dtype])
            check(counted == {CONTRIBUTION: told['frames']}, '%s of %s', counted, told)


@case
def other_ports():
    ports = {'weir.base_port': 13000, 'weir.extended_port': 13001}
    options = [word for name, port in ports.items() for word in ('-o', '%s:%d' % (name, port))]
    data = header(1, 5, 0, 7, 0)
    frames = [frame('10.77.0.1', data, port=port) for port in (12000, 12001, 13000)]
    barrier = header(1, 5, 0, 7, 0, (BARRIER, 0, 0, 0, 0))
    frames += [frame('10.77.0.1', barrier, port=port) for port in (13001, 13031, 13033)]
    rows = rows_of(frames, ['weir.form'], *options)
    check([row['weir.form'] for row in rows] == [[], [], ['0'], ['1'], ['1'], []], '%s', rows)


@case
def impossible_and_cut_off_packets():
    whole = result(1, 5, sources=2, status=PARTIAL, bitmap=[0, 1])
    short = contribution(0, 5, tuple(range(100)))
    stories = [
        # frame, impossible, truncated
        (whole, 0, 0), (result(1, 5, sources=3, status=PARTIAL, bitmap=[0, 1]), 1, 0),
        (result(1, 5, status=PARTIAL), 1, 0), (result(1, 5, bitmap=[0]), 1, 0),
        ((short[:100], len(short)), 0, 1), ((short[:50], len(short)), 0, 1),
        ((whole[:70], len(whole)), 0, 1),
        (frame('10.77.0.1', b'\1\0\0\0', port=BASE), 0, 1), (frame('10.77.0.1', b'', port=BASE), 0, 0),
        (frame('10.77.0.1', header(1, 5, 0, 7, 3), port=BASE), 0, 1),
        (frame('10.77.0.1', header(1, 5, 0, 7, 0) + b'12', port=BASE), 1, 0),
        (frame('10.77.0.1', header(1, 5, 0, 7, 0, status=4), port=BASE), 1, 0),
        (frame('10.77.0.1', header(1, 5, 0, 7, 0, (JOIN, 0, 0, 1, 0))), 0, 0),  # repeated in generation 7
        (frame('10.77.0.1', header(1, 5, 0, 0, 3, (JOIN, 0, 0, 1, 0))), 1, 0),
        (reply(header(1, 5, 0, 7, 0, (JOIN, 0, 0, 1, 0)) + bytes(16)), 1, 0),
        # With a CRC: a contribution, one that lacks it, a probe; a join of a host has none.
        (frame('10.77.0.1', header(1, 5, 0, 7, 1, (ALLREDUCE, 0, FP32, 8, 0)) + bytes(8)), 0, 0),
        (frame('10.77.0.1', header(1, 5, 0, 7, 1, (ALLREDUCE, 0, FP32, 8, 0)) + bytes(4)), 0, 1),
        (frame('10.77.0.1', header(1, 5, 0, 7, 0, (13, 0, 0, 8, 0)) + bytes(4)), 0, 0),
        (frame('10.77.0.1', header(1, 5, 0, 7, 0, (JOIN, 0, 0, 8, 0))), 0, 0),
    ]
    rows = rows_of([data for data, _, _ in stories], ['weir.expert.impossible', 'weir.expert.truncated'])
    for place, (row, (_, impossible, truncated)) in enumerate(zip(rows, stories), 1):
        check(bool(row['weir.expert.impossible']) == impossible and
              bool(row['weir.expert.truncated']) == truncated, 'frame %d: %s', place, row)


def mutilated(draw, frames):
    """A frame with other bits, other lengths, or cut off by the capture."""
    data = bytearray(draw.choice(frames))
    for _ in range(draw.choice((0, 1, 2, 8, 40))):
        data[draw.randrange(12 if draw.random() < 0.1 else 42, len(data))] = draw.randrange(256)
    if draw.random() < 0.3:  # another UDP length, and IPv4's with it
        size = draw.randrange(0, len(data) + 20)
        data[16:18], data[38:40] = struct.pack('>H', size + 20), struct.pack('>H', size)
    length = len(data)
    return bytes(data[:draw.randrange(14, length + 1)] if draw.random() < 0.3 else data), length


@case
def fields_of_the_traffic_page():
    with open(os.path.join(ROOT, 'docs', 'traffic.md')) as file:
        named = set(re.findall(r'\bweir\.[a-z_]+(?:\.[a-z_]+)*', file.read())) - {'weir.lua'}
    check(len(named) > 20, 'only %s', named)
    # An unknown field or preference is tshark's error.
    preferences = {'weir.base_port': 12000, 'weir.extended_port': 12001, 'weir.shown': 4}
    options = [word for name, value in preferences.items() if name in named for word in ('-o', '%s:%d' % (name, value))]
    check(len(options) == 2 * len(preferences), '%s', options)
    rows_of([contribution(0, 0)], sorted(named - set(preferences)), *options)


@case
def mutilated_packets():
    draw = seed()
    known = [data for _, data in vectors('none')]
    known += [contribution(draw.randrange(3), b, tuple(range(draw.randrange(200))),
                           extended=draw.random() < 0.5) for b in range(20)]
    known += [quoted(data) for data in known[:8]]
    known += [reply(bytes(draw.randrange(256) for _ in range(draw.randrange(1, 80))))
              for _ in range(20)]
    with folder() as home:
        path = os.path.join(home, 'mutilated.pcap')
        write_pcap(path, [mutilated(draw, known) for _ in range(2000)])
        text = tshark(path, '-2', '-V', '-O', 'weir', home=home)
        check(text.count('Weir Aggregation Protocol') > 1200, 'few of them are Weir\'s')
        check('Expert Info' in text, 'nothing to complain about')
        rows = fields(path, ['_ws.col.Info'], '-o', 'weir.shown:4095', home=home)
        check(len(rows) == 2000, '%d rows', len(rows))


if __name__ == '__main__':
    main()
