#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""docs/weir.schema.json against configurations: all of configs/ are valid, and so is the good one of the unit tests; those
that these tests refuse for a reason that a schema can express are not. With python3-jsonschema where that is installed, and
always with the keywords below, all that the schema has."""
import glob
import json
import os
import re
import sys

KEYWORDS = {'$schema', 'title', 'description', 'default', 'type', 'enum', 'anyOf', 'properties', 'required', 'additionalProperties',
            'items', 'minItems', 'maxItems', 'minimum', 'maximum', 'minLength', 'maxLength', 'pattern'}
TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'integer': int}
# Reasons that take more than one value to see, and the exception of JSON Schema, where 64.0 is an integer.
BEYOND = r'fraction or exponent|duplicate object key|/\d+ is not a host|in 10\.77|NUL byte|the ranks \d|ids from'
EXPRESSED = (r'unknown key|hexadecimal digits|this key is required|where .* belongs|\d is not in -?\d+\.\.-?\d|is not a power of two|is not one of|'
             r'are not in \d|has other characters|begins with a|is not an IPv4|is not a MAC|station\'s|host\'s address|multicast group|in 224')


def wrong(schema, value, at='$'):
    """Why a value is not valid; None: it is."""
    assert set(schema) <= KEYWORDS, set(schema) - KEYWORDS
    if 'anyOf' in schema:
        found = [wrong(one, value, at) for one in schema['anyOf']]
        return None if None in found else ' and '.join(found)
    kind = TYPES.get(schema.get('type'), object)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        return '%s: not of type %s' % (at, schema['type'])
    if 'enum' in schema and (value not in schema['enum'] or isinstance(value, bool)):
        return '%s: not in %s' % (at, schema['enum'])
    size = value if kind is int else len(value) if kind in (str, list) else 0
    for low, high in ('minimum', 'maximum'), ('minLength', 'maxLength'), ('minItems', 'maxItems'):
        if not schema.get(low, size) <= size <= schema.get(high, size):
            return '%s: %s..%s' % (at, schema[low], schema[high])
    if not re.search(schema.get('pattern', ''), value if kind is str else ''):
        return '%s: not like %s' % (at, schema['pattern'])
    if kind is list:
        parts = [(schema['items'], one, '%s[%d]' % (at, i)) for i, one in enumerate(value)]
    elif kind is dict:
        odd = set(value) - set(schema['properties']) | set(schema['required']) - set(value)
        if odd:
            return '%s: %s' % (at, odd)
        parts = [(schema['properties'][name], one, '%s.%s' % (at, name)) for name, one in value.items()]
    else:
        parts = []
    return next(filter(None, (wrong(*part) for part in parts)), None)


def literals(text):
    """The value of C's string literals, one after the other."""
    joined = ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', text, re.S))
    return joined.encode().decode('unicode_escape').encode('latin-1').decode('utf-8')


def refused(root):
    """The good file of the unit tests; the rows of tests/unit/config_refused.txt: first and last line, what they become, why."""
    with open(os.path.join(root, 'tests', 'unit', 'config_file.h')) as file:
        good = [literals(line) for line in re.search(r'good\[\] = \{\n(.*?)\n\};', file.read(), re.S).group(1).split('\n')]
    found, words = [], {}
    with open(os.path.join(root, 'tests', 'unit', 'config_refused.txt')) as file:
        for line in file:
            line = re.sub(r'(?<!^)\$([A-Z]+)', lambda word: words.get(word.group(1), ''), line.rstrip('\n'))
            word, row = re.match(r'\$([A-Z]+) = (.*)', line), re.match(r'(\d+)(?:-(\d+))? (.*) => (.*)', line)
            if word:
                words[word.group(1)] = word.group(2)
            elif row:
                found.append((int(row.group(1)), int(row.group(2) or row.group(1)), row.group(3), row.group(4)))
    return good, found


def main():
    root = sys.argv[1]
    with open(os.path.join(root, 'docs', 'weir.schema.json')) as file:
        schema = json.load(file)
    checks = [lambda value: wrong(schema, value)]
    try:
        import jsonschema
        jsonschema.Draft202012Validator.check_schema(schema)
        whole = jsonschema.Draft202012Validator(schema)
        checks.append(lambda value: next((error.message for error in whole.iter_errors(value)), None))
    except ImportError:
        print('# no python3-jsonschema')
    failed, valid, expressed = [], 0, 0
    for path in glob.glob(os.path.join(root, 'configs', '**', '*.json'), recursive=True):
        with open(path) as file:
            value = json.load(file)
        if 'ports' in value and 'switch' in value:
            valid += 1
            failed += ['%s: %s' % (path, why) for why in (check(value) for check in checks) if why]
    good, changes = refused(root)
    failed += ['the good file: %s' % why for why in (check(json.loads('\n'.join(good))) for check in checks) if why]
    for first, last, other, why in changes:
        if not re.search(EXPRESSED, why) or re.search(BEYOND, why):
            continue
        expressed += 1
        value = json.loads('\n'.join(good[:first - 1] + [other] + good[last:]))
        failed += ['the schema takes %s (%s)' % (other, why) for check in checks if not check(value)]
    print('\n'.join(failed) or '%d configurations are valid, and %d of %d wrong ones are not' % (valid, expressed, len(changes)))
    return 1 if failed or valid < 15 or expressed < 40 else 0


if __name__ == '__main__':
    sys.exit(main())
