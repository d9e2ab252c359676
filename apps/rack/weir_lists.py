# SPDX-License-Identifier: BSD-3-Clause
"""The lists of data types, operations and collectives, read from the C headers that define them.

Each entry is a list of texts, in the order of the list's columns: name, code, text, and what follows.
"""
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
# In the source tree, or beside this file when installed.
PLACES = [os.path.join(HERE, '..', '..', 'pktbuf', 'wire'), HERE]


def entries(header, name):
    """The entries of WEIR_<name>_LIST in a header of pktbuf/wire."""
    path = next(p for p in (os.path.join(place, header) for place in PLACES) if os.path.exists(p))
    with open(path) as file:
        body = re.search(r'#define WEIR_%s_LIST\(X\)((?:.*\\\n)+.*)' % name, file.read()).group(1)
    return [[cell.strip().strip('"') for cell in entry.split(',')]
            for entry in re.findall(r'X\(([^)]*)\)', body)]


DTYPES = entries('types.h', 'DTYPE')
OPS = entries('types.h', 'OP')
COLLECTIVES = [entry for entry in entries('types.h', 'COLLECTIVE') if entry[5] != 'NONE']
