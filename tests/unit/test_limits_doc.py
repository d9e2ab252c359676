# SPDX-License-Identifier: BSD-3-Clause
"""docs/limits.md: each number of its tables is the one in the header, or in the list of keys, that its row names.

usage: test_limits_doc.py ROOT BUILD
"""
import os
import re
import subprocess
import sys

ROOT, BUILD = sys.argv[1:3]
sys.path.insert(0, os.path.join(ROOT, 'tests', 'lint'))

from lint import Tree, c_flags  # noqa: E402 (the path comes first)

ROWS = 25  # the tables have at least so many


def read(name):
    with open(os.path.join(ROOT, name)) as file:
        return file.read()


rows = re.findall(r'^\| (.+) \| ([0-9]+)\b.* \| `([^`]+)`(?: in `([^`]+)`)? \|$', read('docs/limits.md'), re.M)
assert len(rows) >= ROWS, '%d rows' % len(rows)
assert len(rows) == len(re.findall(r'^\| (?!---|what )', read('docs/limits.md'), re.M)), 'a row names no source of its number'
most = dict(re.findall(r'^\| `([^`]+)` \|.*? \d+\.\.(\d+)[^|]* \|', read('docs/configuration.md'), re.M))
code = '#include <stddef.h>\n'
for what, number, name, header in rows:
    if header:
        code += '#include "%s"\n_Static_assert((%s) == %s, "docs/limits.md: %s");\n' % (header, name, number, what)
    else:
        assert most.get(name) == number, 'docs/limits.md: %s: %s has %s' % (what, name, most.get(name))
done = subprocess.run(['gcc', '-fsyntax-only', '-x', 'c', *c_flags(Tree(ROOT, BUILD)), '-'], input=code, text=True, check=False)
assert done.returncode == 0, 'a number of docs/limits.md is not the header\'s'
print('%d numbers' % len(rows))
