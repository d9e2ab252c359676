#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rewrite what documents say about keys and job settings, from the lists in the source.

    update.py [--check] KEYS ROOT

KEYS is the program ctrl/document/keys.c, ROOT the source tree. `make keys` runs this. With --check,
nothing is written, and the exit status is 1 if a document differs from the lists.

docs/configuration.md has a table row for each key. In the other documents, generated lines are
between a line that ends in `settings: NAME` and one that ends in `settings: end`.
"""
import json
import os
import re
import subprocess
import sys


def configuration(text, keys):
    """The rows of the tables; a new key's row comes after the one of the key before it in the list."""
    rows = {key['path']: key['row'] for key in keys}
    order = [key['path'] for key in keys]
    lines, last = [], {}
    for line in text.split('\n'):
        row = re.match(r'\| `([^`]+)` \|', line)
        if row and row.group(1) not in rows:
            continue
        if row:
            last[row.group(1)] = len(lines)
            line = rows[row.group(1)]
        lines.append(line)
    for index in range(len(order) - 1, 0, -1):
        if order[index] in last:
            continue
        before = next(path for path in reversed(order[:index]) if path in last)
        lines.insert(last[before] + 1, rows[order[index]])
    return '\n'.join(lines)


def regions(text, made):
    """Replace the lines of each region; made: {'NAME': [line, ...]}. Indented like the first marker."""
    lines, inside, seen = [], None, set()
    for line in text.split('\n'):
        begin = re.search(r'^(\s*)\S+ settings: (\w+)( -->)?$', line)
        if begin and begin.group(2) == 'end':
            inside = None
        if inside is None:
            lines.append(line)
        if begin and begin.group(2) != 'end':
            inside = begin.group(2)
            seen.add(inside)
            lines += [begin.group(1) + made_line for made_line in made[inside]]
    missing = set(made) - seen
    assert not missing, 'no region for %s' % ', '.join(sorted(missing))
    return '\n'.join(lines)


def schema(setting):
    """A setting's value in OpenAPI."""
    kind = setting['kind']
    parts = ['type: ' + {'integer': 'integer', 'power': 'integer', 'boolean': 'boolean'}.get(kind, 'string')]
    if kind in ('integer', 'power'):
        parts += ['minimum: %d' % setting['min'], 'maximum: %d' % setting['max']]
    if kind == 'word':
        parts.append('enum: [%s]' % ', '.join(setting['words'].split('|')))
    parts.append('default: ' + setting['default'])
    unit = setting['unit'] + '; ' if setting['unit'] else ''
    unit += 'a power of two. ' if kind == 'power' else ''
    parts.append('description: %s' % json.dumps(unit + setting['help'], ensure_ascii=False))
    return '{ %s }' % ', '.join(parts)


def openapi(text, settings):
    def references(chosen):
        return ['%s: { $ref: "#/components/schemas/%s" }' % (s['name'], s['name']) for s in chosen]

    return regions(text, {
        'schemas': ['%s: %s' % (s['name'], schema(s)) for s in settings],
        'new': references(settings),
        'create': references(settings),
        'job': references(settings),
        'required': ['- ' + s['name'] for s in settings],
        'change': references(s for s in settings if s['change']),
        'joined': references(s for s in settings if s['host']),
        'joined_required': ['- ' + s['name'] for s in settings if s['host']],
    })


def manual(text, settings):
    return regions(text, {name: ['.Fl -%s ,' % s['name'].replace('_', '-') for s in settings if s['change'] == change]
                          for name, change in (('fixed', False), ('change', True))})


def tree(text, settings):
    """A row for each rule, in the order of the settings."""
    rules = {}
    for s in settings:
        if 'tree' in s:
            rules.setdefault(s['tree'], []).append('`%s`' % s['name'])
    rows = ['| %s | %s |' % (', '.join(names), rule) for rule, names in rules.items()]
    return regions(text, {'tree': ['', '| settings | rule |', '| --- | --- |', *rows, '']})


def main():
    check = '--check' in sys.argv
    program, root = [a for a in sys.argv[1:] if a != '--check']
    lists = json.loads(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout)
    documents = {
        'docs/configuration.md': lambda text: configuration(text, lists['keys']),
        'docs/openapi.yaml': lambda text: openapi(text, lists['settings']),
        'docs/tree.md': lambda text: tree(text, lists['settings']),
        'apps/ctl/weirctl.1': lambda text: manual(text, lists['settings']),
    }
    stale = []
    for name, make in documents.items():
        path = os.path.join(root, name)
        with open(path) as file:
            before = file.read()
        after = make(before)
        if after == before:
            continue
        stale.append(name)
        if not check:
            with open(path, 'w') as file:
                file.write(after)
    for name in stale:
        print('%s %s' % (name, 'differs from the lists: make keys' if check else 'is rewritten'))
    sys.exit(1 if check and stale else 0)


if __name__ == '__main__':
    main()
