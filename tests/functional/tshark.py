# SPDX-License-Identifier: BSD-3-Clause
"""tshark with Weir's dissector, and captures to give it."""
import functools
import os
import struct
import subprocess

from tap import check

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..')
DISSECTOR = os.path.join(ROOT, 'configs', 'wireshark', 'weir.lua')
SECONDS = 800


def write_pcap(path, frames):
    """frames: bytes, or (bytes that were captured, length on the wire)."""
    with open(path, 'wb') as file:
        file.write(struct.pack('<IHHiIII', 0xa1b2c3d4, 2, 4, 0, 0, 262144, 1))
        for number, frame in enumerate(frames):
            data, length = frame if isinstance(frame, tuple) else (frame, len(frame))
            time = 1700000000 + number * 0.001
            file.write(struct.pack('<IIII', int(time), int(time % 1 * 1e6 + 0.5) % 1000000,
                                   len(data), length) + data)


@functools.cache
def unprivileged():
    """Words before a command: Wireshark 4.4 runs no script for root."""
    words = ['unshare', '--user', '--map-user=1000']
    return words if subprocess.run([*words, 'true'], check=False, capture_output=True).returncode == 0 else []


def tshark(path, *options, home):
    """Its output. home: a folder without a user's preferences and plug-ins."""
    done = subprocess.run(
        [*unprivileged(), 'tshark', '-n', '-X', 'lua_script:' + DISSECTOR, '-r', path] + [str(o) for o in options],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        errors='replace', timeout=SECONDS, check=False,
        env=dict(os.environ, HOME=home, XDG_CONFIG_HOME=home, LC_ALL='C.UTF-8'))
    said = '\n'.join(line for line in done.stderr.splitlines() if 'Running as user' not in line)
    check(done.returncode == 0 and said == '', 'tshark: status %d: %s', done.returncode, said)
    for word in ('Lua Error', 'weir.lua:', 'Malformed Packet: W', 'Malformed Packet: w',
                 'Dissector bug'):
        check(word not in done.stdout, '%s', [line for line in done.stdout.splitlines()
                                              if word in line][:5])
    return done.stdout


def fields(path, names, *options, home):
    """A list of each frame's values: a dictionary of lists of strings, by field."""
    asked = [word for name in names for word in ('-e', name)]
    text = tshark(path, '-T', 'fields', '-E', 'separator=/t', '-E', 'occurrence=a', '-E',
                  'aggregator=|', *asked, *options, home=home)
    rows = []
    for line in text.splitlines():
        cells = line.split('\t')
        check(len(cells) == len(names), 'fields: %s', line)
        rows.append({name: cell.split('|') if cell else [] for name, cell in zip(names, cells)})
    return rows


def number(row, name):
    """The only value of a field; None where the frame has none. Booleans are 0 and 1."""
    values = row[name]
    check(len(values) <= 1, '%s: %s', name, values)
    if not values:
        return None
    return {'True': 1, 'False': 0}.get(values[0]) if values[0] in ('True', 'False') else \
        int(values[0], 0)
