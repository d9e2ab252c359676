#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the Python package says of structs, enums and constants is what a C compiler says, and what the generator makes of
the header.

usage: test_python_abi.py ROOT
"""
import ctypes
import enum
import os
import subprocess
import sys
import tempfile

ROOT = sys.argv[1]
sys.path[:0] = [os.path.join(ROOT, 'apps', 'python')]

from weir import _abi  # noqa: E402 (the path comes first)


def expected():
    """(expression in C, value) of everything."""
    for name, value in vars(_abi).items():
        if isinstance(value, type) and issubclass(value, ctypes.Structure) and value is not ctypes.Structure:
            struct = 'struct weir_' + name.lower()
            yield 'sizeof(%s)' % struct, ctypes.sizeof(value)
            for field, _ in value._fields_:
                yield 'offsetof(%s, %s)' % (struct, field), getattr(value, field).offset
                yield 'sizeof(((%s *)0)->%s)' % (struct, field), getattr(value, field).size
        elif isinstance(value, enum.EnumMeta) and value is not enum.IntEnum:
            for entry in value:
                yield 'WEIR_%s_%s' % (name.upper(), entry.name), entry.value
        elif isinstance(value, int):
            yield 'WEIR_' + name, value
    for dtype, size in _abi.DTYPES.values():
        yield 'weir_dtype_bytes(%d)' % dtype, size
    yield 'WEIR_DTYPES', len(_abi.DTYPES)
    yield 'WEIR_OPS', len(_abi.OPS)


def main():
    table = list(expected())
    assert len(table) > 180, len(table)
    with tempfile.TemporaryDirectory(prefix='weir-abi-') as folder:
        code, program = os.path.join(folder, 'x.c'), os.path.join(folder, 'x')
        with open(code, 'w') as file:
            file.write('#include "apps/libweir/weir.h"\n#include <stdio.h>\nint main(void)\n{\n%s}\n' % ''.join(
                '\tprintf("%%zu\\n", (size_t)(%s));\n' % expression for expression, _ in table))
        subprocess.run(['gcc', '-I', ROOT, '-o', program, code], check=True)
        found = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    wrong = ['%s is %s, not %d' % (expression, c, python) for (expression, python), c in zip(table, found) if int(c) != python]
    assert len(found) == len(table) and not wrong, '\n'.join(wrong)
    # The committed file is what the generator makes.
    subprocess.run([os.path.join(ROOT, 'apps', 'python', 'generate.py'), '--check'], check=True)
    print('%d facts' % len(table))


main()
