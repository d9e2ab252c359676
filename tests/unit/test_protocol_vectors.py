#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/vectors.json from docs/protocol.md alone: keys, tags and CRCs with Python's library and the program openssl, none of
them with the code of the switch, of libweir or of the model.

    test_protocol_vectors.py ROOT
"""
import json
import os
import struct
import subprocess
import sys

ROOT = sys.argv[1]
sys.path[:0] = [os.path.join(ROOT, 'tests', 'functional'), os.path.join(ROOT, 'apps', 'rack')]
from wire import checksum, proof, source_key, tag  # noqa: E402  (wire.py knows the page alone, too)

SOURCE, GENERATION = 1, struct.pack('>H', 7)
STATUS = {'contribution': 0, 'acknowledge': 1, 'probe': 2}


def crc32c(data):
    value = 0xffffffff
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    return struct.pack('<I', value ^ 0xffffffff)


def gmac(key, status, number, *message):
    nonce = struct.pack('>IQ', status, number)  # slice 0, then the status
    options = [word for name, value in (('hexkey', key), ('hexiv', nonce)) for word in ('-macopt', '%s:%s' % (name, value.hex()))]
    made = subprocess.run(['openssl', 'mac', '-cipher', 'AES-256-GCM', *options, '-in', '-', '-binary', 'GMAC'],
                          input=b''.join(message), stdout=subprocess.PIPE, check=True)
    return made.stdout


def covered(header, vector):
    """The header that a result's tag or CRC covers: all sources have one."""
    if vector['form'] == 'base':  # a sum of fp32, with a CRC
        header += bytes([0, 10 << 4 | 8, 0, header[5] >> 4])
    return header[:6] + b'\0' + header[7:] if vector['from'] == 'switch' else header


def main():
    with open(os.path.join(ROOT, 'docs', 'vectors.json')) as file:
        document = json.load(file)
    setup = {name: bytes.fromhex(value) for name, value in document['setup'].items() if name != 'about'}
    key, challenge = setup['source_key'], setup['generation_challenge']
    assert key == source_key(setup['job_key'], SOURCE, int.from_bytes(setup['epoch'], 'big'))
    assert setup['contributions_key'] == tag(key, b'weir generation', challenge, GENERATION, length=32)
    assert setup['results_key'] == tag(setup['job_key'], b'weir results', challenge, GENERATION, length=32)
    wrap = tag(key, b'weir wrap', setup['join_nonce'], challenge, GENERATION, length=32)
    wrapped = bytes(a ^ b for a, b in zip(setup['results_key'], wrap))
    frames = {vector['name']: bytes.fromhex(vector['frame']) for vector in document['packets']}
    seen = {}
    for vector in document['packets']:
        frame, size = frames[vector['name']], 16 if vector['form'] == 'extended' else 12
        assert checksum(frame[14:34]) == 0, vector
        pseudo = frame[26:34] + struct.pack('>BBH', 0, 17, len(frame) - 34)
        assert checksum(pseudo + frame[34:]) == 0, vector
        packet = frame[42:]
        header, payload = packet[:size], packet[size:]
        about = vector.get('tag', {})
        kind = about.get('kind', vector['end'])
        seen[kind] = seen.get(kind, 0) + 1
        if kind == 'none':
            continue
        bytes_of_end = 4 if kind == 'crc' else 16
        payload, end = payload[:-bytes_of_end], payload[-bytes_of_end:]
        if kind == 'crc':
            right = crc32c(covered(header, vector) + payload)
        elif kind == 'contribution':
            right = gmac(setup['contributions_key'], STATUS.get(vector['header']['collective'], 0), about['number'], header, payload)
        elif kind == 'result':
            right = gmac(setup['results_key'], header[15], about['number'], covered(header, vector), payload)
        elif kind == 'join':
            made = proof(key, '10.77.0.2', 40001, header, payload[:16], setup['join_nonce'], about['count'])
            payload, right = made[16:-16], made[-16:]
            assert frame[42 + size:-16] == payload and payload[:16] in (bytes(16), setup['source_challenge']), vector
        else:
            answered = frames[about['answers']][-16:] if about['answers'] in frames else setup['join_nonce']
            right = tag(key, b'weir reply', answered, header, payload)
            assert 'key' not in vector or payload.endswith(challenge + wrapped), vector
        assert end == right, '%s: %s, not %s' % (vector['name'], end.hex(), right.hex())
    assert min(seen[kind] for kind in ('crc', 'contribution', 'result', 'join', 'reply')) >= 2, seen


main()
