#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""How weirctl finds a switch and shows who asks: sockets, tokens, certificates. Against a control API that
is played."""
import os
import ssl
import subprocess
import sys
import tempfile
import threading
import time

from ctl import WEIRCTL, Ended, ctl, says
from control import make_certificate
from fake_api import FakeApi, healthy
from tap import Skip, case, check, main


@case
def no_connection():
    says(ctl('unix:/nowhere/at.sock', 'jobs'), 3, '/nowhere/at.sock .No such file or directory.: is the switch '
         'running')
    with FakeApi() as api:
        api.fill()
        api.stop()
        says(ctl(api.address, 'jobs'), 3, 'Connection refused.: is the switch running')
    with FakeApi(tcp=True) as api:
        api.stop()
        says(ctl(api.address, 'jobs'), 3, 'Connection refused.*api.listen')
    with FakeApi() as api:
        heard = threading.Event()
        api.routes['/v1/jobs'] = lambda handler: heard.wait(60) and None
        api.routes['/v1/trace'] = lambda handler: time.sleep(3) or {'traceEvents': []}
        says(ctl(api.address, 'jobs', '--timeout', '300ms'), 3, 'no answer .* for 300 ms')
        heard.set()
        # What is asked to take time, and takes it, has this time beside the timeout.
        says(ctl(api.address, '-t', '2s', 'trace', '--for', '3s', '-o', '-'), 0, 'traceEvents')


@case
def the_only_socket():
    """Without an address: the socket in /run/weir, of which there must be one."""
    script = 'mount -t tmpfs none /run && mkdir /run/weir && mount --bind %s /run/weir && exec %s jobs'

    def run(folder):
        env = {k: v for k, v in os.environ.items() if not k.startswith('WEIR_')}
        done = subprocess.run(['unshare', '-m', 'sh', '-c', script % (folder, WEIRCTL)], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=800, text=True)
        if 'mount:' in done.stdout or 'unshare:' in done.stdout:
            raise Skip('no mounts of its own: ' + done.stdout.strip())
        return Ended(done.returncode, done.stdout, '')

    with tempfile.TemporaryDirectory(prefix='weir-run-') as folder:
        says(run(folder), 3, 'no socket in /run/weir: is the switch running')
        with open(os.path.join(folder, 'no.socket'), 'w'):
            pass
        with FakeApi(folder=folder, name='one.sock') as api:
            api.fill()
            says(run(folder), 0, '^JOB ')
            with FakeApi(folder=folder, name='two.sock'):
                says(run(folder), 3, '2 switches in /run/weir: .*two.sock.*-s unix:/run/weir/NAME')


@case
def tokens():
    with FakeApi() as api, tempfile.TemporaryDirectory(prefix='weir-token-') as folder:
        name = os.path.join(folder, 'token')

        def guarded(handler):
            if handler.headers.get('Authorization') == 'Bearer s3cret':
                return healthy()['/v1/jobs']
            return (401, {'error': {'status': 401, 'code': 'unauthorized', 'key': None,
                                    'message': 'no tenant has this token'}})
        api.routes['/v1/jobs'] = guarded
        says(ctl(api.address, 'jobs'), 1, 'no tenant has this token', '--token-file FILE')
        for text, status in (('s3cret\n', 0), ('wrong', 1)):
            with open(name, 'w') as file:
                file.write(text)
            run = ctl(api.address, 'jobs', '--token-file', name)
            says(run, status, 'JOB' if status == 0 else 'does not accept the token in ' + name)
            check('s3cret' not in run.out + run.err, '%s', run)
            says(ctl(api.address, 'jobs', WEIR_TOKEN_FILE=name), status)
            # As libweir: an option, the token itself, a file of it; set to nothing is not set.
            said = 'JOB' if status == 0 else 'does not accept the token in WEIR_TOKEN\n'
            says(ctl(api.address, 'jobs', WEIR_TOKEN=text.strip(), WEIR_TOKEN_FILE='/no'), status, said)
            says(ctl(api.address, 'jobs', '--token-file', name, WEIR_TOKEN='other'), status)
            says(ctl(api.address, 'jobs', WEIR_TOKEN='', WEIR_TOKEN_FILE=name), status)
        says(ctl(api.address, 'jobs', WEIR_TOKEN='two words'), 2, 'WEIR_TOKEN: the token is empty, or has blanks')
        for text in ('', 'two words\n', 'a\r\nHost: evil\n', 'x' * 5000):
            with open(name, 'w', newline='') as file:
                file.write(text)
            says(ctl(api.address, 'jobs', '--token-file', name), 2, 'must contain one token|the token is empty, or has blanks')
        says(ctl(api.address, 'jobs', '--token-file', folder + '/none'), 2, 'No such file')
        api.routes['/v1/jobs'] = (403, {'error': {'status': 403, 'code': 'forbidden',
                                                  'message': 'not yours'}})
        says(ctl(api.address, 'jobs'), 1, 'not yours', 'only an administrator may')


@case
def tls():
    with tempfile.TemporaryDirectory(prefix='weir-tls-') as folder:
        certificate, key = make_certificate(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        with FakeApi(tcp=True, context=context) as api:
            api.fill()
            says(ctl(api.address, 'jobs', '--ca', certificate), 0, '^JOB ')
            says(ctl(api.address, 'jobs', WEIR_CA=certificate), 0, '^JOB ')
            says(ctl(api.address, 'jobs', '--ca', certificate, WEIR_CA='/none'), 0, '^JOB ')
            says(ctl(api.address, 'jobs', WEIR_CA=''), 3, 'WEIR_CA .*names the certificate')
            says(ctl(api.address.replace('https', 'http'), 'jobs'), 3, 'does not answer|closes')
            says(ctl(api.address, 'jobs', '--ca', folder + '/none'), 3, 'WEIR_CA')
        with FakeApi(tcp=True) as api:
            api.fill()
            says(ctl(api.address + '/', 'jobs', http_proxy='http://127.0.0.1:1'), 0, '^JOB ')
            check(api.asked[-1][1] == '/v1/jobs', '%s', api.asked)


if __name__ == '__main__':
    sys.exit(main())
