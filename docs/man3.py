#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Section 3 of the manual, from libweir's header: a page for each group of functions under one comment, and
weir(3) with everything else. The header is the manual; this only lays it out.

    man3.py HEADER VERSION_DATE           the names of the pages
    man3.py HEADER VERSION_DATE FOLDER    write them

HEADER is the installed header: one file, made by amalgamate.py.
"""
import os
import re
import sys
import textwrap

API = re.compile(r'^WEIR_API ([^;(]*?)(\w+)\(([^)]*)\);', re.M | re.S)
ENTRY = re.compile(r'X\((\w+),.*?"([^"]*)"[^")]*\)', re.S)


def escape(line):
    line = line.replace('\\', '\\e').replace('-', '\\-')
    return '\\&' + line if line.startswith(('.', "'")) else line


def literal(lines):
    lines = textwrap.dedent('\n'.join(lines)).expandtabs(8).split('\n')
    cut = []
    for line in lines:  # mandoc takes long lines for mistakes
        indent = re.match(r'\s*(\S+( \S+)*\s{2,})?', line).end()
        cut += [line] if len(line) < 79 else textwrap.wrap(line, 78, subsequent_indent=' ' * min(indent, 40))
    return ['.Bd -literal'] + [escape(line) for line in cut] + ['.Ed']


def prose(text):
    """One sentence a line, as mdoc wants it."""
    lines = []
    text = re.sub(r'\b(weir_\w+)\(\)', r'\1', text).replace('fork()', 'fork')
    for sentence in re.split(r'(?<=[.!?]) (?=[A-Z"(])', ' '.join(text.split())):
        lines += [escape(line) for line in textwrap.wrap(sentence, 76, break_on_hyphens=False)]
    return lines


def words(comment):
    """A comment as mdoc."""
    body = re.sub(r'^/\*|\*/$', '', comment.strip())
    lines = [re.sub(r'^[ \t]*\* ?', '', line) if i else line for i, line in enumerate(body.split('\n'))]
    made, block, kind = [], [], None

    def flush():
        nonlocal block
        while block and not block[-1].strip():
            block.pop()
        if block:
            if made and kind == 'prose':
                made.append('.Pp')
            made.extend(literal(block) if kind == 'literal' else prose('\n'.join(block)))
        block = []
    for line in lines:
        this = kind if not line.strip() else 'literal' if re.match(r'\t|  ', line) else 'prose'
        if this != kind or (this == 'prose' and not line.strip()):
            flush()
            kind = this
        if line.strip() or block:
            block.append(line)
    flush()
    return made


def paragraphs(header):
    """[(comment or '', code)] of the header, without its frame."""
    made = []
    for text in re.split(r'\n\s*\n(?=\S)', header):
        text = text.strip()
        if re.match(r'#(ifndef APPS|include|ifdef __cpl|endif|define WEIR_API)', text) or not text or text.startswith('}'):
            continue
        comment, code = '', text
        while code.startswith('/*'):
            end = code.index('*/') + 2
            comment, code = (comment + '\n *\n' if comment else '') + code[:end], code[end:].strip()
        made.append((comment.replace('*/\n *\n/*', '\n *\n *'), code))
    return made


def prototypes(code):
    return [(result.strip(), name, ' '.join(arguments.split()).split(', '))
            for result, name, arguments in API.findall(code)]


def about(comment):
    """The first sentence, as the one-line description."""
    text = ' '.join(' '.join(re.sub(r'^/\*|\*/$|^[ \t]*\* ?', '', comment, flags=re.M).split()).split())
    return escape(re.split(r'[.:;](?= |$)', text)[0][:70].rstrip().lower() or 'libweir')


def head(name, date):
    return ['.\\" Made from weir.h by docs/man3.py', '.Dd ' + date, '.Dt %s 3' % name.upper(), '.Os']


def page(comment, code, date):
    found = prototypes(code)
    names = [name for _, name, _ in found]
    lines = head(names[0], date) + ['.Sh NAME']
    lines += ['.Nm %s%s' % (name, ' ,' if name != names[-1] else '') for name in names]
    lines += ['.Nd ' + about(comment), '.Sh LIBRARY', 'libweir, \\-lweir', '.Sh SYNOPSIS', '.In weir.h']
    for result, name, arguments in found:
        lines += ['.Ft ' + result, '.Fo ' + name] + ['.Fa "%s"' % a for a in arguments] + ['.Fc']
    inner = re.findall(r'/\*.*?\*/', code, re.S)
    lines += ['.Sh DESCRIPTION'] + words(comment)
    for more in inner:
        lines += ['.Pp'] + words(more)
    return names, lines + ['.Sh SEE ALSO', '.Xr weir 3']


def declaration(comment, code):
    """A constant, type or list."""
    listed = re.match(r'#define (\w+)_LIST\(X\)', code)
    if listed:
        lines = ['.Ss ' + listed.group(1)] + words(comment) + ['.Bl -tag -width Ds']
        for name, text in ENTRY.findall(code):
            lines += ['.It ' + name] + prose(text)
        return lines + ['.El']
    name = re.search(r'(?:struct|enum|#define) (\w+)', code)
    lines = ['.Ss ' + (name.group(1) if name else 'Declarations')]
    return lines + words(comment) + literal(code.split('\n'))


def pages(header, date):
    """{file: lines}"""
    every = paragraphs(header)
    (first, _), rest = every[0], every[1:]
    made, functions, types, pending = {}, [], [], None
    for comment, code in rest:
        if not API.search(code):
            types.append((comment, code))
            continue
        names, lines = page(comment or (pending or ''), code, date)
        made[names[0] + '.3'] = lines
        functions.append(names)
        for other in names[1:]:
            made[other + '.3'] = ['.so man3/%s.3' % names[0]]
    lines = head('weir', date) + ['.Sh NAME', '.Nm weir', '.Nd collectives through a Weir switch', '.Sh LIBRARY',
                                  'libweir, \\-lweir', '.Sh SYNOPSIS', '.In weir.h', '.Dl cc program.c '
                                  '$(pkg\\-config \\-\\-cflags \\-\\-libs libweir)', '.Sh DESCRIPTION'] + words(first)
    for comment, code in types:
        if code and not re.match(r'(struct \w+;|#define WEIR_X|static inline)', code):
            lines += declaration(comment, code)
    refs = sorted(names[0] for names in functions)
    lines += ['.Sh SEE ALSO'] + ['.Xr weir\\-perf 1 ,'.replace('\\', '')] + \
        ['.Xr %s 3%s' % (name, ' ,' if name != refs[-1] else '') for name in refs]
    made['weir.3'] = lines
    return made


def main():
    with open(sys.argv[1]) as file:
        made = pages(file.read(), sys.argv[2])
    if len(sys.argv) == 3:
        print('\n'.join(sorted(made)))
        return
    for name, lines in made.items():
        with open(os.path.join(sys.argv[3], name), 'w') as file:
            file.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
