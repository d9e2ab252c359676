# SPDX-License-Identifier: BSD-3-Clause
"""The control API of a rack's switch, over its Unix socket."""
import http.client
import json
import socket

SECONDS = 10


class ApiError(Exception):
    """The switch refuses, or is not there."""


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__('weir', timeout=SECONDS)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(path, method, target, body=None):
    """The body of the answer, which has to be a success."""
    connection = Connection(path)
    try:
        connection.request(method, target, body=None if body is None else json.dumps(body),
                           headers={} if body is None else {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        content = json.loads(answer.read() or b'null')
    except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
        raise ApiError('%s %s: %s' % (method, target, error)) from None
    finally:
        connection.close()
    if answer.status >= 300:
        error = (content or {}).get('error', {})
        raise ApiError('%s %s: %d %s' % (method, target, answer.status, ': '.join(
            filter(None, (error.get('key'), error.get('message'))))))
    return content
