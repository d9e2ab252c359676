# SPDX-License-Identifier: BSD-3-Clause
"""docs/openapi.json, from the lists of operations, answers and settings that ctrl/document/keys.c prints."""
import json
import re

COMMENT = 'Written by `make keys` from ctrl/api/operations.h and ctrl/api/fields.h: do not edit.'


def reference(name):
    return {'$ref': '#/components/schemas/' + name}


def sentence(text):
    return text[:1].upper() + text[1:] + '.'


def measured(text, unit):
    """A description with its unit: "seconds since it left", "the oldest packet (milliseconds)"."""
    if not unit or not text:
        return text or unit
    return '%s %s' % (unit, text) if re.match('(since|for|until|between) ', text) else '%s (%s)' % (text, unit)


class Answers:
    """The schemas of the answers' objects, and examples of them."""

    def __init__(self, lists, key_schema):
        self.objects, self.kinds, self.lists, self.key_schema = lists['objects'], lists['kinds'], lists, key_schema

    def settings(self, which):
        """The settings of a job that an answer has: the schemas, and the values of an example."""
        if which == 'FAULT':
            keys = {key['path']: key for key in self.lists['keys']}
            return self.key_schema(keys['faults.rules[]'], keys)['properties'], {'direction': 'in', 'action': 'drop'}
        chosen = [s for s in self.lists['settings'] if which == 'ALL' or (which == 'HOST' and s['host'])]
        return ({s['name']: reference(s['name']) for s in chosen},
                {s['name']: s['default'] if s['kind'] in ('word', 'results') else json.loads(s['default']) for s in chosen})

    def value(self, field):
        """The schema of a field's value."""
        kind = self.kinds[field['kind']]
        made = {'type': kind['type'].split()[0]}
        if field['kind'] == 'OBJECT':
            made = reference(field['of'])
        elif field['kind'] == 'LIST':
            made['items'] = reference(field['of'])
        elif field['kind'] == 'WORD':
            made['enum'] = field['of'].split('|')
        elif field['kind'] in ('COUNT', 'BYTES', 'MS', 'MBIT'):
            made['minimum'] = 0
        elif field['kind'] in ('IDS', 'TEXTS'):
            made['items'] = {'type': 'integer' if field['kind'] == 'IDS' else 'string'}
        elif field['kind'] == 'RATES':
            made['items'] = {'type': ['number', 'null']}
        elif field['kind'] == 'PAIRS':
            made['items'] = {'type': 'array', 'items': {'type': 'number'}}
        if field['nullable'] and 'type' in made:
            made['type'] = [made['type'], 'null']
        elif field['nullable']:
            made = {'anyOf': [made, {'type': 'null'}]}
        text = measured(field['help'], kind['unit'])
        return {**made, 'description': sentence(text)} if text else made

    def others(self, kind):
        number = {'type': 'integer', 'minimum': 0}
        return {'COUNT': number, 'OBJECT': True,
                'RATES': {'type': 'array', 'items': {'type': ['number', 'null']}}}[kind]

    def schema(self, name, is_change):
        shape = self.objects[name]
        settings = self.settings(shape['settings'])[0]
        made = {'type': 'object', 'properties': {f['key']: self.value(f) for f in shape['fields']}}
        required = [f['key'] for f in shape['fields'] if not f['optional']]
        made['properties'].update(settings)
        if shape['settings'] in ('ALL', 'HOST'):
            required += settings
        if is_change:
            made['properties']['dry_run'] = {'const': True, 'description': 'The change was checked, and not made.'}
        if required:
            made['required'] = required
        if shape['others'] != 'NONE':
            made['additionalProperties'] = self.others(shape['others'])
        if shape['help']:
            made['description'] = shape['help']
        return made

    def example(self, name):
        shape, made = self.objects[name], {}
        for f in shape['fields']:
            if f['kind'] in ('OBJECT', 'LIST'):
                made[f['key']] = self.example(f['of']) if f['kind'] == 'OBJECT' else [self.example(f['of'])]
            elif f['kind'] in ('TEXT', 'WORD'):
                made[f['key']] = (f['of'] or 'text').split('|')[0]
            else:
                made[f['key']] = json.loads(f['of'] or self.kinds[f['kind']]['example'])
        made.update(self.settings(shape['settings'])[1])
        return made


def parameters(operation, key_schema):
    found = [{'name': name, 'in': 'path', 'required': True,
              'schema': {'type': 'integer', 'minimum': 0, 'maximum': 255} if name == 'rank' else {'type': 'string', 'minLength': 1}}
             for name in re.findall(r'{(\w+)}', operation['path'])]
    for key in operation['query']:
        if key['path'] == 'dry_run':
            found.append({'$ref': '#/components/parameters/dry_run'})
            continue
        schema = key_schema(key, {})
        text = schema.pop('description', '')
        found.append({'name': key['path'], 'in': 'query', 'required': key['default'] is None, 'description': text, 'schema': schema})
    return found


def body(operation, lists, key_schema):
    keys = {key['path']: key for key in operation['body']}
    if operation['section']:
        keys = {key['path']: key for key in lists['keys']}
        schema = key_schema(keys[operation['section']], keys)
    else:
        top = {'path': '', 'kind': 'object', 'unit': '', 'default': '', 'min': 0, 'max': 0, 'words': None, 'help': ''}
        schema = key_schema(top, keys)
    for setting in lists['settings']:  # said once, in the components
        for properties in schema['properties'], schema['properties'].get('create', {}).get('properties', {}):
            if setting['name'] in properties and not operation['section']:
                properties[setting['name']] = reference(setting['name'])
    return {'required': True,
            'content': {'application/json': {'schema': schema, 'example': json.loads(operation['example'])}}}


def responses(operation, answers):
    """An answer without an object is text, or bytes."""
    types = {'get_metrics': 'text/plain', 'get_page': 'text/html'}
    if operation['answer']:
        content = {'application/json': {'schema': reference(operation['answer']), 'example': answers.example(operation['answer'])}}
    else:
        content = {types.get(operation['name'], '*/*'): {'schema': {'type': 'string'}}}
    made = {status: {'description': 'Success.', 'content': content} for status in operation['status'].split('|')}
    if operation['method'] != 'GET':
        made['429'] = {'$ref': '#/components/responses/TooOften'}
    made['default'] = {'$ref': '#/components/responses/Error'}
    return made


def document(lists, key_schema, page):
    """The document as an object. page: the file of its description. key_schema: of ctrl/document/update.py."""
    answers = Answers(lists, key_schema)
    with open(page) as file:
        about = file.read().split('\n## Operations')[0].split('\n', 1)[1].strip()  # without the title
    changed = {o['answer'] for o in lists['operations'] if o['method'] != 'GET'}
    paths = {}
    for o in lists['operations']:
        head, *words = o['name'].split('_')
        made = {'operationId': head + ''.join(word.title() for word in words), 'summary': sentence(o['help']), 'x-access': o['access']}
        if o['more']:
            made['description'] = o['more']
        found = parameters(o, key_schema)
        if found:
            made['parameters'] = found
        if o['body'] or o['section']:
            made['requestBody'] = body(o, lists, key_schema)
        paths.setdefault(o['path'], {})[o['method'].lower()] = {**made, 'responses': responses(o, answers)}
    error = {'application/json': {'schema': reference('Error'), 'example': {
        'error': {'status': 404, 'code': 'unknown_job', 'message': 'no job is called "ring"'}}}}
    room = {'type': 'object', 'required': ['memory', 'blocks'], 'properties': {
        'memory': {'type': 'integer', 'description': 'Bytes; free: the largest piece.'},
        'blocks': {'type': 'integer', 'description': 'Block records on one worker.'}},
        'description': 'With 507: the resources that the job needs, and the free ones.'}
    schemas = {name: answers.schema(name, name in changed) for name in lists['objects']}
    schemas.update({s['name']: key_schema(s, {}) for s in lists['settings']})
    schemas['Error'] = {'type': 'object', 'required': ['error'], 'properties': {'error': {
        'type': 'object', 'required': ['status', 'code', 'message'], 'properties': {
            'status': {'type': 'integer', 'minimum': 400, 'maximum': 599, 'description': "HTTP's."},
            'code': {'type': 'string', 'enum': lists['errors'].split('|')},
            'key': {'type': 'string', 'description': 'Path of the wrong key, such as sources[2].address.'},
            'message': {'type': 'string', 'description': 'What is wrong, and what to do.'},
            'free': room, 'needed': room}}}}
    dry_run = next(key for o in lists['operations'] for key in o['query'] if key['path'] == 'dry_run')
    return {
        'openapi': '3.1.0',
        'info': {'title': 'Weir control API', 'version': '1', 'license': {'name': 'BSD-3-Clause', 'identifier': 'BSD-3-Clause'},
                 'description': about},
        'x-comment': COMMENT,
        'servers': [{'url': 'http://localhost', 'description': 'Any of the listeners.'}],
        'security': [{}, {'token': []}],
        'paths': paths,
        'components': {
            'securitySchemes': {'token': {'type': 'http', 'scheme': 'bearer', 'description': 'The token of one of `api.tenants`.'}},
            'parameters': {'dry_run': {'name': 'dry_run', 'in': 'query', 'description': dry_run['help'],
                                       'schema': {'type': 'integer', 'enum': [0, 1], 'default': 0}}},
            'responses': {
                'Error': {'description': 'The request was refused or failed.', 'content': error},
                'TooOften': {'description': 'The caller makes more changes than it may; nothing has changed.', 'headers': {
                    'Retry-After': {'description': 'Seconds until the next change is allowed.',
                                    'schema': {'type': 'integer', 'minimum': 1}}}, 'content': error}},
            'schemas': schemas,
        },
    }
