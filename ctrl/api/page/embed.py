#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the files of the page as C: embed.py OUTPUT FILE... (the table of ctrl/api/page.h)."""
import os
import sys

TYPES = {
    '.json': 'application/json',
    '.html': 'text/html; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.css': 'text/css; charset=utf-8',
    '.svg': 'image/svg+xml',
}


def row(file):
    """A row of the table: its path, and the row in C."""
    with open(file, 'rb') as source:
        content = source.read()
    path = '/' + os.path.basename(file).replace('index.html', '')
    return path, '\t{ "%s", "%s", (const unsigned char[]){%s}, %d },\n' % (
        path, TYPES[os.path.splitext(file)[1]], ','.join(map(str, content)), len(content))


def main(output, *files):
    rows = [text for _, text in sorted(map(row, files))]
    with open(output, 'w') as target:
        target.write('/* Written by ctrl/api/page/embed.py. */\n#include "ctrl/api/page.h"\n\n'
                     'const struct page_file page_files[] = {\n%s};\n'
                     'const size_t page_files_count = %d;\n' % (''.join(rows), len(rows)))


if __name__ == '__main__':
    main(*sys.argv[1:])
