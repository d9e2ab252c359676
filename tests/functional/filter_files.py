# SPDX-License-Identifier: BSD-3-Clause
"""Files of filters, made without a compiler for eBPF."""
import os
import struct

# Offsets in struct weir_filter (ppe/filters/weir_filter.h).
UDP_DST, VALUE, COUNTER = 42, 152, 216


def code(*instructions):
    """Of (operation, destination, source, offset, immediate)."""
    return b''.join(struct.pack('<BBhi', op, to | of << 4, at, number) for op, to, of, at, number in instructions)


EXIT = (0x95, 0, 0, 0, 0)


def result(number):
    return (0xb7, 0, 0, 0, number)


# Drop UDP packets to the port values[0], in network byte order, and count them.
BY_PORT = code((0x69, 2, 1, UDP_DST, 0), (0x79, 3, 1, VALUE, 0), result(0), (0x5d, 2, 3, 4, 0), (0x79, 2, 1, COUNTER, 0),
               (0x07, 2, 0, 0, 1), (0x7b, 1, 2, COUNTER, 0), result(1), EXIT)


def elf(text, section='weir', relocated=False):
    """An object file with this code: sections null, code, names, and a relocation of the code."""
    names = b'\0' + section.encode() + b'\0.shstrtab\0'
    body = text + names + b'\0' * (-len(names) % 8) + b'\0' * 16
    at, end = 64, 64 + len(text)

    def header(name, kind, flags, offset, size, info=0):
        return struct.pack('<IIQQQQIIQQ', name, kind, flags, 0, offset, size, 0, info, 1, 0)

    return (struct.pack('<16sHHIQQQIHHHHHH', b'\x7fELF\x02\x01\x01', 1, 247, 1, 0, 0, 64 + len(body), 0, 64, 0, 0, 64, 4, 2)
            + body + header(0, 0, 0, 0, 0) + header(1, 1, 6, at, len(text)) + header(len(section) + 2, 3, 0, end, len(names))
            + header(0, 9, 0, 64 + len(body) - 16, 16 if relocated else 0, 1))


def offer_filters(rack, files):
    """A directory with these files, {name: content}, for its switch. Returns the directory."""
    folder = os.path.join(rack.folder, 'filters')
    os.mkdir(folder, 0o755)
    for name, content in files.items():
        path = os.path.join(folder, name)
        with open(path, 'wb') as file:
            file.write(content)
        os.chmod(path, 0o644)
    rack.changes['filter_directory'] = folder
    return folder
