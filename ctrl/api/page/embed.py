#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Write the files of the page as C: embed.py OUTPUT FILE... (the table of ctrl/api/page.h)."""
import os
import sys

TYPES = {
    '.html': 'text/html; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.css': 'text/css; charset=utf-8',
    '.svg': 'image/svg+xml',
}


def main(output, *files):
    arrays, rows = [], []
    for number, file in enumerate(sorted(files, key=os.path.basename)):
        with open(file, 'rb') as source:
            content = source.read()
        name = os.path.basename(file)
        path = '/' if name == 'index.html' else '/' + name
        lines = [', '.join(str(byte) for byte in content[at:at + 24])
                 for at in range(0, len(content), 24)]
        arrays.append('static const unsigned char file_%d[] = {\n\t%s\n};\n'
                      % (number, ',\n\t'.join(lines)))
        rows.append((path, '\t{ "%s", "%s", file_%d, sizeof(file_%d) },\n' % (
            path, TYPES[os.path.splitext(name)[1]], number, number)))
    with open(output, 'w') as target:
        target.write('/* Written by ctrl/api/page/embed.py. */\n#include "ctrl/api/page.h"\n\n')
        target.write('\n'.join(arrays))
        target.write('\nconst struct page_file page_files[] = {\n%s};\n'
                     % ''.join(row for _, row in sorted(rows)))
        target.write('const size_t page_files_count = %d;\n' % len(rows))


if __name__ == '__main__':
    main(*sys.argv[1:])
