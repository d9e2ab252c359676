#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The installed header: a header of the source with those that it includes "from the root" in their
places, so that a program has one file and no other folder to look in.

    amalgamate.py ROOT HEADER >weir.h
"""
import os
import re
import sys


def body(text):
    """A header without its licence line and its guard."""
    text = re.sub(r'\A/\* SPDX[^\n]*\n', '', text)
    guard = re.search(r'^#ifndef (\w+)\n#define \1\n', text, re.M)
    return (text[:guard.start()] + text[guard.end():]).rstrip()[:-len('#endif')].strip()


def inline(root, name, seen):
    with open(os.path.join(root, name)) as file:
        text = file.read()

    def included(match):
        if match.group(1) in seen:
            return ''
        seen.add(match.group(1))
        return body(inline(root, match.group(1), seen)) + '\n'

    return re.sub(r'^#include "([^"]+)"[^\n]*\n', included, text, flags=re.M)


if __name__ == '__main__':
    sys.stdout.write(inline(sys.argv[1], sys.argv[2], {sys.argv[2]}))
