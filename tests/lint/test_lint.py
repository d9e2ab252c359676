#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every lint check can fail: each is shown a tree that breaks its rule, and one that does not."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MARK = '/* SPDX-License-Identifier: BSD-3-Clause */\n'
GOOD = {
    'compile_commands.json': '[{"directory": ".", "file": "rmw/rmw.c", "command": "gcc"}]',
    'rmw/rmw.h': MARK + '#include <stdint.h>\n\nuint32_t rmw_add(uint32_t a);\n',
    'rmw/rmw.c': MARK + '#include "rmw/rmw.h"\n#include "rmw/second.h"\n',
    'rmw/second.h': MARK,
    'ppe/x_fast.h': MARK + '/* never calls malloc() or exit() */\n#include "rmw/rmw.h"\n',
    'ppe/good.c': MARK + '#include "ppe/x_fast.h"\n\nstatic const char *s = "abort() // here";\n',
    'apps/main.c': MARK + '#include <stdlib.h>\n\nvoid\nstop(void)\n{\n\texit(1);\n}\n',
    'apps/libweir/weir.h': MARK + 'int weir_open(void);\n',
    'apps/libweir/engine.h': MARK + '#include "apps/libweir/weir.h"\n',
    'apps/libweir/window.c': MARK + '#include "apps/libweir/engine.h"\n\nstatic_assert(1, "");\n',
    'pktbuf/wire/wire.h': MARK + '#include <stdint.h>\n',
    'apps/verify/verify.h': MARK + '#include "pktbuf/wire/wire.h"\n',
    'README.md': '# Weir\n\n[a](docs/a.md#the-walk) and `rmw/rmw.c`\n',
    'docs/a.md': '# A page\n\n## The walk\n\n[back](../README.md) [out](https://example.org/x)\n'
                 '\n| a `b` | no: `stop` | yes: `other` | see |\n| a | no: `stop` | `tests/a.py` |\n',
    'docs/limits.md': '| what | most | defined by |\n| --- | --- | --- |\n| a | 32767 | `INT16_MAX` in `pktbuf/wire/wire.h` |\n| b | 8 | `a.b` |\n',
    'docs/weir.schema.json': '{"properties": {"a": {"properties": {"b": {"maximum": 8}}}}}',
    'apps/python/pyproject.toml': '[tool.mypy]\nstrict = true\n',
    'apps/python/weir/__init__.py': '# SPDX-License-Identifier: BSD-3-Clause\nA: int = 1\n',
    'tests/a.py': '# SPDX-License-Identifier: BSD-3-Clause\ndef stop():\n    pass\n',
}
# check, the case that must fail, path, text
BAD = [
    ('headers', 'rmw/bad.h', 'rmw/bad.h', MARK + 'uint32_t f(void);\n'),
    ('headers', 'rmw/second.h', 'rmw/second.h', MARK + 'uint32_t f(void);\n'),  # after one that has what it needs
    ('headers', 'apps/libweir/weir.h as C[+][+]', 'apps/libweir/weir.h', MARK + 'int f(int class);\n'),
    ('format', 'clang-format', 'rmw/bad.c', MARK + 'int   a;\n'),
    ('includes', 'include directions', 'rmw/bad.c', MARK + '#include "ppe/x_fast.h"\n'),
    ('includes', 'include directions', 'ppe/bad.c', MARK + '#include "apps/libweir/weir.h"\n'),
    ('includes', 'include lines', 'rmw/bad.c', MARK + '#include "rmw.h"\n'),
    ('includes', 'own header', 'rmw/rmw.c', MARK + '#include <a.h>\n#include "rmw/rmw.h"\n'),
    ('includes', 'system headers', 'ppe/bad.c', MARK + '#include <jansson.h>\n'),
    ('includes', 'system headers', 'apps/libweir/bad.c', MARK + '#include <rte_mbuf.h>\n'),
    ('includes', 'parts of a room', 'apps/libweir/bad.c', MARK + '#include "rmw/rmw.h"\n'),
    ('includes', 'parts of a room', 'apps/perf/bad.h', MARK + '#include "ppe/x_fast.h"\n'),
    ('includes', 'system headers', 'pktbuf/wire/bad.h', MARK + '#include <rte_byteorder.h>\n'),
    ('includes', 'parts of a room', 'ctrl/config/bad.c', MARK + '#include "ctrl/jobs/jobs.h"\n'),
    ('includes', 'parts of a room', 'ctrl/log.c', MARK + '#include "ctrl/api/json.h"\n'),
    ('includes', 'parts of a room', 'ctrl/jobs/bad.c', MARK + '#include "ctrl/stats/stats.h"\n'),
    ('includes', 'parts of a room', 'ctrl/stats/bad.h', MARK + '#include "ctrl/api/json.h"\n'),
    ('tokens', 'what hosts', 'pktbuf/wire/bad.h', MARK + 'rte_be16_t a;\n'),
    ('includes', 'parts of a room', 'apps/verify/bad.c', MARK + '#include "apps/libweir/geometry.h"\n'),
    ('includes', 'parts of a room', 'apps/libweir/socket.c', MARK + '#include "apps/libweir/engine.h"\n'),
    ('tokens', 'only apps', 'ctrl/bad.c', MARK + 'void f(void)\n{\n\texit(0);\n}\n'),
    ('tokens', 'only apps', 'rmw/bad.c', MARK + 'void f(void)\n{\n\trte_exit(1, "");\n}\n'),
    ('tokens', 'a library', 'apps/libweir/weir_a.c', MARK + 'void f(void)\n{\n\tabort();\n}\n'),
    ('tokens', 'a library', 'apps/libweir/socket.c', MARK + 'void f(void)\n{\n\terrx(1, "");\n}\n'),
    ('tokens', 'a library', 'apps/libweir/x.h', MARK + 'static inline void f(int a)\n{\n\tassert(a);\n}\n'),
    ('tokens', 'JSON', 'ppe/bad.c', MARK + 'json_t *j;\n'),
    ('tokens', 'no lock', 'ppe/bad.c', MARK + 'pthread_mutex_t m;\n'),
    ('tokens', 'no lock', 'ppe/bad.c', MARK + 'rte_spinlock_t m;\n'),
    ('tokens', 'no lock', 'rmw/bad.h', MARK + 'int a = __atomic_fetch_add(&x, 1, 0);\n'),
    ('tokens', 'no lock', 'hashengine/bad.h', MARK + 'int a = __sync_add_and_fetch(&x, 1);\n'),
    ('tokens', 'what hosts', 'apps/libweir/bad.c', MARK + 'struct rte_mbuf *m;\n'),
    ('tokens', 'a _fast.h neither', 'ppe/b_fast.h', MARK + 'void *p = rte_malloc(0, 1, 1);\n'),
    ('tokens', 'a _fast.h does not log', 'ppe/b_fast.h', MARK + 'int a = printf("");\n'),
    ('tokens', 'a _fast.h does not read', 'ppe/b_fast.h', MARK + 'long a = rte_rdtsc();\n'),
    ('tokens', 'a _fast.h makes', 'ppe/b_fast.h', MARK + 'int a = sched_yield();\n'),
    ('tokens', 'one list', 'apps/bad.c', MARK + 'const char *type[] = {"fp16", "bf16"};\n'),
    ('tokens', 'one list', 'apps/bad.py', 'SETTINGS = ["dead_after_ms"]\n'),
    ('tokens', 'one list', 'ctrl/bad.h', MARK + 'X(ALLGATHER)\n'),
    ('tokens', 'nothing is left', 'docs/b.md', 'TO' + 'DO: write\n'),
    ('tokens', 'nothing is left', 'ppe/bad.c', MARK + '/* FIX' + 'ME */\n'),
    ('files', 'no source over', 'rmw/bad.c', MARK + 'int a;\n' * 801),
    ('files', 'every source', 'rmw/bad.c', 'int a;\n'),
    ('files', 'every source', 'tests/bad', '#!/bin/sh\n'),
    ('files', 'line ends', 'rmw/bad.c', MARK + 'int a; \n'),
    ('docs', 'relative links', 'docs/b.md', '[gone](gone.md)\n'),
    ('docs', 'relative links', 'docs/b.md', '[gone](a.md#gone)\n'),
    ('docs', 'files that', 'docs/b.md', 'see `rmw/gone.c`\n'),
    ('docs', 'numbers of', 'docs/limits.md', '| a | 7 | `INT16_MAX` in `pktbuf/wire/wire.h` |\n'),
    ('docs', 'numbers of', 'docs/limits.md', '| b | 7 | `a.b` |\n'),
    ('docs', 'numbers of', 'docs/limits.md', '| c | 7 | nowhere |\n'),
    ('docs', 'test cases', 'docs/b.md', '| a | no: `stop`, `gone` | `tests/a.py` |\n'),
]
TYPES = ('types',) if shutil.which('mypy') else ()
BAD += [(check, 'mypy', 'apps/python/weir/__init__.py', text) for check in TYPES for text in ('A: int = ""\n', 'def f(a): pass\n')]


def lint(changes, check):
    """The TAP of a check over the good tree with some files replaced."""
    with tempfile.TemporaryDirectory(prefix='weir-lint-') as root:
        for path, text in {**GOOD, **changes}.items():
            os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(root, path), 'w') as file:
                file.write(text)
        with open(os.path.join(HERE, '..', '..', '.clang-format')) as file:
            style = file.read()
        with open(os.path.join(root, '.clang-format'), 'w') as file:
            file.write(style)
        return subprocess.run([os.path.join(HERE, 'lint.py'), root, root, check], text=True,
                              stdout=subprocess.PIPE, check=False).stdout


def main():
    number = failed = 0

    def case(good, name, tap):
        nonlocal number, failed
        number += 1
        failed += not good
        print('%sok %d - %s' % ('' if good else 'not ', number, name))
        if not good:
            print(''.join('# %s\n' % line for line in tap.splitlines()))

    for check in ('headers', 'format', 'includes', 'tokens', 'files', 'docs') + TYPES:
        tap = lint({}, check)
        case('not ok' not in tap and re.search(r'^ok', tap, re.M), check + ' takes a good tree',
             tap)
    for check, name, path, text in BAD:
        tap = lint({path: text}, check)
        case(re.search(r'^not ok \d+ - %s: %s' % (check, name), tap, re.M),
             '%s refuses a bad %s (%s)' % (check, path, name.replace('[', '').replace(']', '')),
             tap)
    print('1..%d' % number)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
