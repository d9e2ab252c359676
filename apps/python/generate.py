#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write weir/_abi.py, what the package knows of libweir's header, from apps/libweir/weir.h and pktbuf/wire/types.h,
and its version.

    generate.py            write it
    generate.py --check    fail if it is out of date

The C preprocessor expands the header's lists; what it leaves is so regular (enums, structs of plain fields, functions)
that it is read line by line here. What is not as expected is an error. tests/unit/test_python_abi.py compares the result
with a C program.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TARGET = os.path.join(HERE, 'weir', '_abi.py')
HEADERS = ['apps/libweir/weir.h', 'pktbuf/wire/types.h']
sys.path.insert(0, os.path.join(ROOT, 'apps', 'rack'))

import weir_lists  # noqa: E402 (the path comes first)

SCALARS = {'void': 'None', 'bool': 'c_bool', '_Bool': 'c_bool', 'int': 'c_int', 'unsigned int': 'c_uint', 'size_t': 'c_size_t',
           'uint8_t': 'c_uint8', 'uint16_t': 'c_uint16', 'uint32_t': 'c_uint32', 'uint64_t': 'c_uint64'}
FUNCTION = re.compile(r'void \(\*(\w+)\)\((.*)\)$')


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def expanded():
    """Both headers after the preprocessor, in one line, without what they include."""
    text = subprocess.run([os.environ.get('CPP_COMMAND', 'gcc'), '-E', '-I', ROOT, os.path.join(ROOT, HEADERS[0])], check=True,
                          stdout=subprocess.PIPE, text=True).stdout
    own, kept = False, []
    for line in text.splitlines():
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            own = marker.group(1).endswith(tuple(HEADERS))
        elif own:
            kept.append(line)
    text = re.sub(r'__attribute__\(\(\w+\("\w+"\)\)\)', '', ' '.join(kept))
    return re.sub(r'\s+', ' ', text)


def python_type(text, structs):
    """The ctypes type of a C type."""
    words = [w for w in re.findall(r'\w+|\*', text) if w != 'const']
    stars, base = words.count('*'), ' '.join(w for w in words if w != '*')
    if base in ('char', 'void') and stars:
        made, stars = {'char': 'c_char_p', 'void': 'c_void_p'}[base], stars - 1
    elif base.startswith('struct ') and stars:  # the header's opaque ones are no more than addresses
        made, stars = (structs[base[7:]], stars) if base[7:] in structs else ('c_void_p', stars - 1)
    elif base.startswith('enum '):
        made = 'c_int'
    else:
        made = SCALARS[base]
    return 'POINTER(' * stars + made + ')' * stars


def declaration(text, structs):
    """(name, ctypes type) of a field or an argument."""
    text = text.strip()
    function = FUNCTION.match(text)
    if function:
        return function.group(1), 'CFUNCTYPE(None, %s)' % ', '.join(
            declaration(a, structs)[1] for a in function.group(2).split(','))
    kind, name, count = re.fullmatch(r'(.*?)(\w+)\s*(?:\[(\d+)\])?', text).groups()
    made = python_type(kind, structs)
    return name, '%s * %s' % (made, count) if count else made


def enums(text):
    """{name: [(enumerator, value)]} of the enums with a name."""
    found = {}
    for name, body in re.findall(r'enum (\w+) \{(.*?)\}', text):
        found[name], value = [], -1
        for entry in filter(None, (e.strip() for e in body.split(','))):
            entry, _, given = (part.strip() for part in entry.partition('='))
            value = int(given) if given else value + 1
            found[name].append((entry, value))
    return found


def short(name):
    return name.replace('weir_', '').capitalize()


def generate():
    text = expanded()
    constants = [found for path in HEADERS for found in re.findall(r'#define WEIR_(\w+)\s+(\d+)\b', read(path))]
    bodies = re.findall(r'struct (\w+) \{(.*?)\};', text)
    structs = {name: short(name) for name, _ in bodies}
    soname = 'libweir.so.' + re.search(r"weir_abi = '(\d+)'", read('apps/libweir/meson.build')).group(1)
    version = re.search(r"version: '([^']+)'", read('meson.build')).group(1)
    lines = ['# SPDX-License-Identifier: BSD-3-Clause',
             '"""What libweir\'s header declares. Made by apps/python/generate.py; `make keys` renews it."""',
             'import enum',
             'from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint8, c_uint16,',
             '                    c_uint64, c_void_p)', '', 'VERSION = %r' % version, 'SONAME = %r' % soname]
    lines += ['%s = %s' % found for found in constants]
    for name, entries in enums(text).items():
        lines += ['', '', 'class %s(enum.IntEnum):' % short(name), '    """enum %s."""' % name]
        lines += ['    %s = %d' % (entry[len(name) + 1:], value) for entry, value in entries]
    lines += ['', '', '# Their texts, and of types the bytes of an element.', 'DTYPES = {']
    lines += ['    %r: (Dtype.%s, %s),' % (entry[2], entry[0], entry[3]) for entry in weir_lists.DTYPES]
    lines += ['}', 'OPS = {'] + ['    %r: Op.%s,' % (entry[2], entry[0]) for entry in weir_lists.OPS] + ['}']
    for name, body in bodies:
        lines += ['', '', 'class %s(Structure):' % short(name), '    """struct %s."""' % name, '    _fields_ = [']
        lines += ["        ('%s', %s)," % declaration(field, structs) for field in body.split(';') if field.strip()]
        lines.append('    ]')
    lines += ['', '', '# Of each function the type of its result, and those of its arguments.', 'FUNCTIONS = {']
    for result, name, arguments in re.findall(r'(?<=[;}]) ((?:const |unsigned |enum |struct )*\w+ \*?)(weir_\w+)\(([^()]*)\);', text):
        lines.append('    %r: (%s, [%s]),' % (name, python_type(result, structs), ', '.join(
            declaration(argument, structs)[1] for argument in arguments.split(','))))
    return '\n'.join(lines + ['}', ''])


def main():
    made = generate()
    if sys.argv[1:] == ['--check']:
        with open(TARGET) as file:
            if file.read() != made:
                sys.exit('apps/python/weir/_abi.py is not what the header says: run `make keys`')
        return
    with open(TARGET, 'w') as file:
        file.write(made)


if __name__ == '__main__':
    main()
