#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A process that opens a handle in the background, and does what it reads: a word a line.

    opener.py BUILD CONFIG [OTHER]     # JSON: fields of struct weir_config

    wait     until the opening has ended; prints the code and the text
    sum      an AllReduce of one element; prints the code, and the sum or the text
    close
    other    begin to open another handle
"""
import ctypes
import functools
import json
import select
import sys

from libweir import Handle, Library, c_request


def wait(handle):
    done, code = ctypes.c_bool(), 0
    while not done.value:
        select.select([handle.call('fd')], [], [])
        code = handle.call('open_test', ctypes.byref(done))
    print(code, handle.text(), flush=True)


def add(handle):
    value, request = ctypes.c_int32(1), c_request()
    code = handle.call('iallreduce', ctypes.addressof(value), ctypes.addressof(value), 1, 4, 0,
                       ctypes.byref(request))
    if code == 0:
        code = handle.so.weir_wait(ctypes.byref(request))
    print(code, value.value if code == 0 else handle.text(), flush=True)


def main():
    library = Library(sys.argv[1])
    handle, *others = [functools.partial(Handle, library, begin='iopen', **json.loads(config))
                       for config in sys.argv[2:]]
    handle = handle()
    print('opening', flush=True)
    for line in sys.stdin:
        {'wait': wait, 'sum': add, 'close': Handle.close, 'other': lambda _: others.pop()()}[line.strip()](handle)


if __name__ == '__main__':
    main()
