# SPDX-License-Identifier: BSD-3-Clause
"""A headless Chromium, steered over its DevTools pipe: no window, no port, every wait bounded."""
import atexit
import base64
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

from tap import wait_for

OPTIONS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run',
           '--hide-scrollbars', '--remote-debugging-pipe', '--disable-extensions', '--mute-audio',
           '--disable-background-networking', '--disable-component-update', '--disable-sync',
           '--disable-default-apps', '--renderer-process-limit=1', '--force-color-profile=srgb',
           '--no-proxy-server', 'about:blank']


def found():
    return shutil.which('chromium')


class Browser:
    """A browser and a page of it: each `with browser as page` is another one, that knows nothing of those before. It is
    started through `through`, such as ip netns exec NAME."""

    def __init__(self, through=()):
        self.folder = tempfile.mkdtemp(prefix='weir-browser-')
        self.number, self.buffer, self.session, self.context = 0, b'', None, None
        self.said = []  # errors of scripts and what the browser refused to load
        # Above the two descriptors that the browser wants, so that none lands on another.
        theirs_in, self.out = os.pipe()
        self.into, theirs_out = os.pipe()
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (theirs_in, theirs_out)]

        def place():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        # pylint: disable=subprocess-popen-preexec-fn
        self.process = subprocess.Popen(
            list(through) + [found(), '--user-data-dir=' + self.folder] + OPTIONS, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, pass_fds=(3, 4), preexec_fn=place,
            start_new_session=True, env=dict(os.environ, HOME=self.folder, LANG='C.UTF-8'))
        for fd in ends + [theirs_in, theirs_out]:
            os.close(fd)

    def __enter__(self):
        try:
            self.said = []
            self.context = self.call('Target.createBrowserContext')['browserContextId']
            target = self.call('Target.createTarget', url='about:blank', browserContextId=self.context)
            self.session = self.call('Target.attachToTarget', targetId=target['targetId'], flatten=True)['sessionId']
            for domain in ('Page', 'Runtime', 'Log'):
                self.call(domain + '.enable')
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None:  # who knows how it is
            self.close()
            return
        self.session = None
        self.call('Target.disposeBrowserContext', browserContextId=self.context)

    def close(self):
        if self.out is None:
            return
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(300)
        os.close(self.out)
        os.close(self.into)
        self.out = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def read(self, until):
        """The next message, or None when none has come until then."""
        while b'\0' not in self.buffer:
            ready, _, _ = select.select([self.into], [], [], max(0, until - time.monotonic()))
            if not ready:
                return None
            data = os.read(self.into, 1 << 20)
            if not data:
                raise RuntimeError('the browser is gone')
            self.buffer += data
        message, self.buffer = self.buffer.split(b'\0', 1)
        return json.loads(message)

    def event(self, message):
        values = message.get('params', {})
        if message.get('method') == 'Runtime.exceptionThrown':
            details = values['exceptionDetails']
            self.said.append(details.get('exception', {}).get('description', details['text']))
        elif message.get('method') == 'Runtime.consoleAPICalled' and values['type'] == 'error':
            self.said.append(' '.join(str(a.get('description', a.get('value'))) for a in values['args']))
        elif message.get('method') == 'Log.entryAdded' and values['entry']['source'] != 'network':
            self.said.append(values['entry']['text'])

    def call(self, method, seconds=300, **values):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': values}
        if self.session:
            message['sessionId'] = self.session
        os.write(self.out, json.dumps(message).encode() + b'\0')
        until = time.monotonic() + seconds
        while True:
            answer = self.read(until)
            if answer is None:
                raise TimeoutError('%s has no answer after %d s' % (method, seconds))
            if answer.get('id') != self.number:
                self.event(answer)
            elif 'error' in answer:
                raise RuntimeError('%s: %s' % (method, answer['error']['message']))
            else:
                return answer['result']

    def size(self, width, height, dark=False, phone=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height,
                  deviceScaleFactor=1, mobile=phone)
        self.call('Emulation.setEmulatedMedia', features=[
            {'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def go(self, address):
        self.call('Page.navigate', url=address)
        self.wait('document.readyState === "complete" && location.href === %s' % json.dumps(address))

    def ask(self, expression):
        """The value of an expression (awaited when it is a promise)."""
        answer = self.call('Runtime.evaluate', expression=expression, returnByValue=True,
                           awaitPromise=True)
        if 'exceptionDetails' in answer:
            raise RuntimeError(answer['exceptionDetails'].get('exception', {}).get('description'))
        return answer['result'].get('value')

    def text(self, selector='body'):
        """What a person reads there; no-break spaces are spaces."""
        words = self.ask('[...document.querySelectorAll(%s)].map((n) => n.innerText).join("\\n")'
                         % json.dumps(selector)) or ''
        return words.replace('\u00a0', ' ').replace('\u202f', ' ')

    def wait(self, expression):
        """Until the expression holds; an element that is not there yet makes it false."""
        wait_for(lambda: self.ask('(() => { try { return Boolean(%s) } catch { return false } })()' % expression), '%s\nThe page says:\n%s', expression,
                 lambda: self.text()[:3000])

    def key(self, name):
        more = {'text': '\r'} if name == 'Enter' else {}
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=name, code=name,
                      windowsVirtualKeyCode={'ArrowLeft': 37, 'Enter': 13}[name], **more)

    def picture(self, path):
        """A PNG of the whole page."""
        with open(path, 'wb') as file:
            file.write(base64.b64decode(self.call('Page.captureScreenshot', format='png', captureBeyondViewport=True)['data']))


@atexit.register
def close_shared():
    for browser in shared:
        browser.close()


shared = []  # the one browser of all pages that need none of their own


def browser_of(through):
    """The shared browser; with `through`, another one, which its user closes."""
    if through:
        return Browser(through)
    if not shared or shared[0].out is None:
        shared[:] = [Browser()]
    return shared[0]
