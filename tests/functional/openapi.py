# SPDX-License-Identifier: BSD-3-Clause
"""docs/openapi.json as a judge of answers.

    document = Document()
    for path, method, operation in document.operations(): ...
    document.judge('GET', '/v1/jobs/ring', status, body)      # raises AssertionError

Stricter than the document, which lets answers grow: keys that it does not name are errors here.
"""
import functools
import json
import os
import re

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, '..', '..', 'docs', 'openapi.json')
TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'integer': int, 'number': (int, float),
         'null': type(None)}


@functools.cache
class Document:
    def __init__(self):
        with open(PAGE) as file:
            self.root = json.load(file)

    def operations(self):
        """(path, METHOD, operation) of each."""
        for path, item in self.root['paths'].items():
            for method, operation in item.items():
                yield path, method.upper(), operation

    def resolve(self, schema):
        while '$ref' in schema:
            where, schema = schema['$ref'], self.root
            for part in where.lstrip('#/').split('/'):
                schema = schema[part]
        return schema

    def judge(self, method, path, status, body):
        """Is this answer one that the operation may give?"""
        path = path.split('?')[0]
        templates = [t for t in self.root['paths'] if re.fullmatch(re.sub(r'{\w+}', '[^/]+', t), path)]
        operation = self.root['paths'][path if path in templates else templates[0]][method.lower()]
        responses = operation['responses']
        answer = self.resolve(responses.get(str(status)) or responses['default'])
        assert str(status) in responses or status >= 400, 'status %d is not promised' % status
        content = answer.get('content', {}).get('application/json')
        if content is not None:
            self.match(content['schema'], body, 'body')

    def match(self, schema, value, where):
        schema = self.resolve(schema)
        if 'anyOf' in schema:
            if value is not None:
                self.match(schema['anyOf'][0], value, where)
            return
        kinds = schema.get('type', [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        good = not kinds or any(isinstance(value, TYPES[kind]) and (kind == 'boolean' or not isinstance(value, bool))
                                for kind in kinds)
        assert good, '%s: %r is no %s' % (where, value, kinds)
        if value is None:
            return
        assert value in schema.get('enum', [schema.get('const', value)]), '%s: %r' % (where, value)
        for key, fits in (('minimum', lambda least: value >= least), ('maximum', lambda most: value <= most),
                          ('minLength', lambda least: len(value) >= least),
                          ('pattern', lambda pattern: re.search(pattern, value))):
            assert key not in schema or fits(schema[key]), '%s: %r: %s %s' % (where, value, key, schema[key])
        if isinstance(value, list):
            for number, element in enumerate(value):
                self.match(schema['items'], element, '%s[%d]' % (where, number))
        if isinstance(value, dict):
            self.match_object(schema, value, where)

    def match_object(self, schema, value, where):
        known = schema.get('properties', {})
        more = schema.get('additionalProperties', not known)
        for key in schema.get('required', []):
            assert key in value, '%s.%s is missing' % (where, key)
        for key, element in value.items():
            if key in known:
                self.match(known[key], element, '%s.%s' % (where, key))
            elif isinstance(more, dict):
                self.match(more, element, '%s.%s' % (where, key))
            else:
                assert more, '%s.%s is not in the document' % (where, key)
