#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Rewrite what documents say about keys and job settings, from the lists in the source.

    update.py [--check] KEYS ROOT

KEYS is the program ctrl/document/keys.c, ROOT the source tree. `make keys` runs this. With --check,
nothing is written, and the exit status is 1 if a document differs from the lists.

docs/weir.schema.json is a JSON Schema of the keys, docs/openapi.json describes the API, docs/environment.md is made
of the texts of weir(7), in docs/man7.py. In the other documents, generated lines are
between a line that ends in `settings: NAME` (or `lists: NAME`) and one that ends in `settings: end` (`lists: end`).
"""
import json
import os
import re
import subprocess
import sys

from openapi import document, sentence

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'docs'))

from man7 import markdown  # noqa: E402 (the path comes first)


def regions(text, made):
    """Replace the lines of each region; made: {'NAME': [line, ...]}. Indented like the first marker."""
    lines, inside, seen = [], None, set()
    for line in text.split('\n'):
        begin = re.search(r'^(\s*)\S+ (?:settings|lists): (\w+)( -->)?$', line)
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


OCTET = '(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])'
HOST = r'([1-9]|[1-9][0-9]|1[01][0-9]|12[0-689]|1[3-9][0-9]|2[01][0-9]|22[0-3])(\.%s){3}' % OCTET
PATTERNS = {  # of the kinds of strings, ctrl/config/schema.h
    'name': '^[A-Za-z0-9_][A-Za-z0-9._-]*$',
    'address': '^%s$' % HOST,
    'ipv4': r'^%s(\.%s){3}$' % (OCTET, OCTET),
    'subnet': '^%s/([1-9]|[12][0-9]|30)$' % HOST,
    'results': r'^(unicast|(?!224\.0\.0\.)2(2[4-9]|3[0-9])(\.%s){3})$' % OCTET,
    'hex': '^[0-9A-Fa-f]*$',
    'mac': '^(?!(00:){5}00$)[0-9A-Fa-f][02468ACEace](:[0-9A-Fa-f]{2}){5}$',
}


def plain(text):
    """A help without its Markdown."""
    return re.sub(r'\[([^]]*)\]\([^)]*\)', r'\1', text).replace('`', '').replace('\\|', '|')


def key_schema(key, keys):
    """A key's value in JSON Schema, with all that is in it. keys: by path."""
    kind, low, high, path = key['kind'], key['min'], key['max'], key['path']
    within = {name[len(path) + bool(path):]: inner for name, inner in keys.items()
              if name.startswith(path + '.' if path else '') and not set(name[len(path) + bool(path):]) & set('.[')}
    made = {'description': (plain(key['help']) + (' (%s)' % key['unit'] if key['unit'] else '')).strip()}
    if not made['description']:
        del made['description']
    if kind == 'integer':
        made.update(type='integer', minimum=low, maximum=high)
    elif kind == 'power':
        made['enum'] = [1 << bit for bit in range(63) if low <= 1 << bit <= high]
    elif kind == 'boolean':
        made['type'] = 'boolean'
    elif kind == 'word':
        made['enum'] = key['words'].split('|')
    elif kind == 'array':
        made.update(type='array', minItems=low, maxItems=high, items=key_schema(keys[path + '[]'], keys))
    elif kind == 'settings':  # those of a program
        made['type'] = 'object'
    elif kind != 'object':
        made['type'] = 'string'
        if kind in PATTERNS:
            made['pattern'] = PATTERNS[kind]
        if kind in ('text', 'name', 'hex'):
            made.update(minLength=low, maxLength=high)
    if kind == 'object' or within:
        shape = {'type': 'object', 'additionalProperties': False,
                 'properties': {name: key_schema(inner, keys) for name, inner in within.items()},
                 'required': [name for name, inner in within.items() if inner['default'] is None]}
        if kind == 'array':  # an object in place of the list
            made = {**({'description': made.pop('description')} if 'description' in made else {}), 'anyOf': [made, shape]}
        else:
            made.update(shape)
    if key['default'] and not path.endswith('[]'):
        made['default'] = key['default'] if kind not in ('object', 'settings', 'array', 'integer', 'power', 'boolean') else json.loads(key['default'])
    return made


def whole_schema(keys):
    top = {'path': '', 'kind': 'object', 'unit': '', 'default': '', 'min': 0, 'max': 0, 'words': None,
           'help': 'The configuration of weir-switch: docs/configuration.md.'}
    made = key_schema(top, {key['path']: key for key in keys})
    return compact({'$schema': 'https://json-schema.org/draft/2020-12/schema', 'title': 'weir.json', **made})


def compact(value):
    """JSON in which an object that has no others in it is one line."""
    text = json.dumps(value, indent=1, ensure_ascii=False)
    return re.sub(r'\{\n((?:[^{}"]|"[^"]*")*)\}', lambda inner: '{ %s }' % re.sub(r'\n *', ' ', inner.group(1)).strip(), text) + '\n'


KINDS = {'settings': 'object', 'ipv4': 'IPv4 address', 'power': 'power of two', 'text': 'string', 'address': 'IPv4 address', 'subnet': 'IPv4 address/prefix',
         'mac': 'MAC address', 'results': 'unicast or IPv4 multicast group'}


def facts(key):
    """The type, range and default of a key."""
    kind, low, high = key['kind'], key['min'], key['max']
    told = [KINDS.get(kind, kind) if kind != 'word' else 'one of ' + ', '.join(key['words'].split('|'))]
    if kind in ('integer', 'power'):
        told.append('%d..%d%s' % (low, high, ' ' + key['unit'].replace('µ', 'u') if key['unit'] else ''))
    elif kind in ('array', 'text', 'name'):
        told.append('%d..%d %s' % (low, high, 'entries' if kind == 'array' else 'characters'))
    if not key['path'].endswith('[]'):
        told.append('required' if key['default'] is None else 'default ' + key['default'] if key['default'] else '')
    return '; '.join(filter(None, told))


def configuration(text, settings):
    rows = ['| `%s` | %s | %s |' % (s['name'], re.sub('^(integer|boolean); ', '', facts(s)), s['help']) for s in settings]
    return regions(text, {'jobs': ['', '| setting | values | meaning |', '| --- | --- | --- |', *rows, '']})


def manual(text, settings):
    return regions(text, {name: ['.Fl -%s ,' % s['name'].replace('_', '-') for s in settings if s['change'] == change]
                          for name, change in (('fixed', False), ('change', True))})


def operations(text, found):
    rows = ['| `%s %s` | %s | %s |' % (o['method'], o['path'], o['access'], sentence(o['help'])) for o in found]
    return regions(text, {'operations': ['', '| operation | access | |', '| --- | --- | --- |', *rows, '']})


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
        'docs/configuration.md': lambda text: configuration(text, lists['settings']),
        'docs/weir.schema.json': lambda _: whole_schema(lists['keys']),
        'docs/environment.md': lambda _: markdown(root),
        'docs/openapi.json': lambda _: compact(document(lists, key_schema, os.path.join(root, 'docs/api.md'))),
        'docs/api.md': lambda text: operations(text, lists['operations']),
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
