# SPDX-License-Identifier: BSD-3-Clause
"""The control API of a rack's switch, with all answers compared with docs/openapi.yaml, and what tests of jobs do
with it."""
import re

import control
from control import Control
from openapi import Document
from tap import check, wait_for


def switch(*shape, **more):
    return control.switch(*shape, api=Api, **more)


class Api(Control):
    """Answers are compared with the document."""

    def __init__(self, rack, **section):
        super().__init__(rack, **section)
        self.document = Document()

    def judge(self, method, path, answer):
        path = re.sub(r'\?.*', '', path)
        path = re.sub(r'^(/v1/jobs/)[^/]+', r'\1{name}', path)
        path = re.sub(r'(/members/).+', r'\1{rank}', path)
        operation = self.document.root['paths'][path][method.lower()]
        check(not operation.get('x-planned'), '%s %s is planned', method, path)
        self.document.check(operation, answer.status, answer.body)

    def do(self, method, path, body=None, status=200, code=None, key=None, **who):
        """Ask, on the Unix socket or with a token over TCP; returns the body."""
        way = self.tcp if who else self.unix
        answer = way(method, path, body, **who)
        check(answer.status == status, '%s %s: %d %s', method, path, answer.status, answer.text)
        self.judge(method, path, answer)
        if code is not None:
            check(answer.code == code, '%s: %s', path, answer.text)
        if key is not None:
            check(answer.body['error'].get('key') == key, '%s: %s', path, answer.text)
        return answer.body

    def create(self, name, size, status=201, **more):
        who = {k: more.pop(k) for k in ('token', 'code', 'key') if k in more}
        return self.do('POST', '/v1/jobs', dict(more, name=name, size=size), status, **who)

    def join(self, name, rank, size, host, **more):
        who = {k: more.pop(k) for k in ('token', 'status', 'code', 'key', 'place', 'address')
               if k in more}
        where = {'address': self.rack.address(host)} if host is not None else {}
        return self.do('POST', '/v1/jobs/%s/members' % name,
                       dict(more, rank=rank, size=size, **where), **who)

    def job_of(self, name, hosts, **more):
        """A job of these hosts, all of them in. Returns its id."""
        made = self.create(name, len(hosts), **more)
        for rank, host in enumerate(hosts):
            self.join(name, rank, len(hosts), host)
        return made['id']

    def delete(self, name):
        """And wait until it is gone."""
        answer = self.unix('DELETE', '/v1/jobs/' + name)
        check(answer.status in (200, 202), '%s: %s', name, answer.text)
        self.judge('DELETE', '/v1/jobs/' + name, answer)
        wait_for(lambda: not any(j['name'] == name for j in self.get('/v1/jobs')['jobs']),
                 '%s does not go', name)

    def memory(self):
        """What jobs take."""
        found = self.get('/v1/status')['memory']
        return {key: found[key] for key in ('free', 'data', 'blocks_reserved', 'blocks_used')}
