# SPDX-License-Identifier: BSD-3-Clause
"""docs/openapi.yaml as a judge of answers.

    document = Document()
    for path, method, operation in document.served(): ...
    document.judge('GET', '/v1/jobs/ring', status, body)      # raises AssertionError

Stricter than the document, which lets answers grow: keys that it does not name are errors here.
"""
import functools
import os
import re

import yaml

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, '..', '..', 'docs', 'openapi.yaml')
METHODS = ('get', 'post', 'patch', 'put', 'delete')
TYPES = {'object': dict, 'array': list, 'string': str, 'boolean': bool, 'integer': int,
         'number': (int, float)}


@functools.cache
class Document:
    def __init__(self):
        with open(PAGE) as file:
            self.root = yaml.load(file, Loader=getattr(yaml, 'CSafeLoader', yaml.SafeLoader))

    def served(self):
        """(path, METHOD, operation) of everything that is not only planned."""
        for path, item in self.root['paths'].items():
            for method in METHODS:
                if method in item and not item[method].get('x-planned'):
                    yield path, method.upper(), item[method]

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
        assert not operation.get('x-planned'), '%s %s is planned' % (method, path)
        responses = operation['responses']
        answer = self.resolve(responses.get(str(status)) or responses['default'])
        assert str(status) in responses or status >= 400, 'status %d is not promised' % status
        content = answer.get('content', {}).get('application/json')
        if content is not None:
            self.match(self.resolve(content['schema']), body, 'body')

    def match(self, schema, value, where):
        schema = self.resolve(schema)
        for part in schema.get('allOf', []):
            self.match(part, value, where)
        if value is None:
            assert schema.get('nullable'), '%s is null' % where
            return
        kind = schema.get('type')
        if kind is not None:
            good = isinstance(value, TYPES[kind]) and \
                not (kind in ('integer', 'number') and isinstance(value, bool))
            assert good, '%s: %r is no %s' % (where, value, kind)
        assert value in schema.get('enum', [value]), '%s: %r is none of %s' % (
            where, value, schema.get('enum'))
        assert 'minimum' not in schema or value >= schema['minimum'], '%s: %r' % (where, value)
        assert 'maximum' not in schema or value <= schema['maximum'], '%s: %r' % (where, value)
        assert 'pattern' not in schema or re.search(schema['pattern'], value), \
            '%s: %r' % (where, value)
        if kind == 'array':
            for number, element in enumerate(value):
                self.match(schema['items'], element, '%s[%d]' % (where, number))
        if kind == 'object':
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
