#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A header of this house as Doxygen wants it, on the same lines: plain comments become its own.

    filter.py HEADER

What stands above a declaration, or behind it on its line, is about it; what stands above several
without a blank line between them is about each. The first comment of a file is about the file. What
is indented in a comment (tables, programs, lists of errors) stays as it is laid out.
"""
import re
import sys

COMMENT = re.compile(r'/\*(?!\*).*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PROTOTYPE = re.compile(r'^\w[^;{}#]*\)\s*;', re.M)


def laid_out(body):
    """Indented lines, within the words for "as it is"."""
    made, inside = [], False
    lines = body.split('\n')
    for number, line in enumerate(lines):
        words = re.match(r'(\s*\*)(\s*)(.*)', line) if number else None
        indented = words is not None and words.group(3) not in ('', '/') and \
            len(words.group(2).expandtabs(8)) > 1
        blank = words is not None and words.group(3) == ''
        if indented and not inside:
            made[-1] += ' @verbatim'  # the words stand on the lines around
            inside = True
        elif inside and not indented and not (blank and continues(lines[number + 1:])):
            line = re.sub(r'^(\s*)\*|^\s*$', r'\1  @endverbatim ', line, count=1)
            inside = False
        made.append(re.sub(r'^(\s*)\*', r'\1 ', line) if inside else plain(line))
    return '\n'.join(made)


def continues(lines):
    return bool(lines) and re.match(r'\s*\*(\t|   )', lines[0]) is not None


def plain(line):
    """Angle brackets, hashes and the like are no commands; between backquotes they never are."""
    parts = re.split(r'(`[^`]*`)', line)
    parts[::2] = [re.sub(r'\B[\\#](?=\w)|[<>]|@(?!(?:end)?verbatim)', r'\\\g<0>', part) for part in parts[::2]]
    return ''.join(parts)


def convert(text):
    made, ends, at, first = [], [], 0, True

    def keep(until):
        """What is no comment, with the ends of groups in it."""
        nonlocal at
        while ends and ends[0] <= until:
            made.append(text[at:ends[0]] + '/**@}*/')
            at = ends.pop(0)
        made.append(text[at:until])
        at = until

    for found in COMMENT.finditer(text):
        word, until = found.group(0), found.end()
        if not word.startswith('/*') or word.startswith('/* SPDX'):
            continue
        before = text[text.rfind('\n', 0, found.start()) + 1:found.start()]
        keep(found.start())
        body = laid_out(word[2:-2])
        if before.rstrip().endswith('\\') or text[until:].lstrip(' \t').startswith('\\'):
            made.append(word)  # inside of a macro
        elif before.lstrip().startswith('#include'):
            made.append(word)
        elif before.strip():
            made.append('/**<' + body + '*/')
        elif first:
            made.append('/** @file' + body + '*/' if body.startswith('\n') else '/**' + body + '@file */')
        elif not before and text.startswith('\n\n', until):
            made.append(word)  # about nothing in particular
        elif not before and len(PROTOTYPE.findall(paragraph(text[until:]))) > 1:
            type_first = re.match(r'\n(?:struct \w+;\n)?', text[until:])
            made.append(type_first.group(0)[1:-1] + '/**' + body + '*//**@{*/')
            ends.append(until + len(paragraph(text[until:])))
            until += type_first.end() - 1
        else:
            made.append('/**' + body + '*/')
        first = False
        at = until
    keep(len(text))
    return ''.join(made)


def paragraph(text):
    """Up to the next blank line."""
    return text.split('\n\n', 1)[0]


if __name__ == '__main__':
    with open(sys.argv[1]) as header:
        sys.stdout.write(convert(header.read()))
