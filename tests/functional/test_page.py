#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The live page in a real browser, before a fake switch and a real one: what should be on the screen is there. With
WEIR_PICTURES=FOLDER, each case leaves pictures of a laptop's and a phone's screen there."""
import os
import re
import time
import urllib.error
import urllib.request

from browser import browser_of, found
from fake_switch import PAGE, SECURITY, FakeSwitch, Job
from tap import Skip, case, check, main, wait_for
from rack import Rack, job

HOSTILE = ['<img src=x onerror="document.title=1;window.pwned=1">', '"><script>window.pwned=1</script>',
           '__proto__', '../../v1/status?x=#', '\u202egnp.exe\u0000', 'x' * 300, ' ', '%00%2f..']


def rounds(switch, count=2):
    """Wait until the page has asked so often again; what it had before the last time is on the screen."""
    count_now = lambda: [a[1] for a in switch.asked].count('/v1/status')
    before = count_now()
    wait_for(lambda: count_now() >= before + count, 'the page does not ask')


class Visit:
    """A browser on a switch's page; at the end nothing of the page may have failed."""

    def __init__(self, switch, through=()):
        if not found():
            raise Skip('needs chromium')
        self.switch, self.own = switch, bool(through)
        self.page = browser_of(through)

    def __enter__(self):
        page = self.page.__enter__()
        try:
            page.size(1280, 800)
            page.go(self.switch.address)
        except BaseException:
            page.close()
            raise
        return page

    def __exit__(self, kind, *why):
        try:
            if kind is None:
                screens(self.page)
                check(self.page.said == [], 'the browser says: %s', self.page.said)
            self.page.__exit__(kind, *why)
        except BaseException:
            self.page.close()
            raise
        finally:
            if self.own:
                self.page.close()


def screens(page):
    """No screen is wider than the window."""
    folder = os.environ.get('WEIR_PICTURES')
    for width, height, dark in ((1280, 800, True), (390, 844, False)):
        page.size(width, height, dark, phone=width < height)
        wide = page.ask('document.documentElement.scrollWidth')
        check(wide <= width, 'of %d points the page is %s wide', width, wide)
        if folder:
            page.wait('document.getAnimations().every((a) => a.playState !== "running" || a.effect.getTiming().iterations > 1)')
            page.picture(os.path.join(folder, '%d-%d.png' % (len(os.listdir(folder)), width)))


def has(words, *patterns):
    """Wait until the text that `words` reads has all the patterns."""
    for pattern in patterns:
        wait_for(lambda: re.search(pattern, words()), '"%s" is not on the page:\n%s', pattern, words)


def becomes(wanted, read, *what):
    """Wait until this is read: what one request changes on the page comes with that of another."""
    wait_for(lambda: read(*what) == wanted, '%s, not %s', lambda: read(*what), wanted)


def members(page, card=0):
    return page.ask('[...document.querySelectorAll(".job")[%d].querySelectorAll(".member")]'
                    '.map((s) => s.className.replace("member ", ""))' % card)


@case
def the_files_keep_to_the_policy():
    """What the browser would refuse, or what would make code of a name, is not in the files."""
    for name in sorted(os.listdir(PAGE)):
        if not name.endswith(('.html', '.js', '.css')):
            continue
        with open(os.path.join(PAGE, name), encoding='utf-8') as file:
            text = file.read()
        for pattern in (r'(inner|outer)HTML', r'insertAdjacentHTML', r'document\.write', r'\beval\b',
                        r'new Function', r'DOMParser', r'\sstyle="', r'\son[a-z]+="', r'<style',
                        r'<script(?! type="module" src=)', r'javascript:', r'url\(', r'@import',
                        r'https?://(?!www\.w3\.org/2000/svg\b)', r'[=(]\s*[\'"]//'):
            check(not re.search(pattern, text), '%s has %s', name, pattern)


@case
def a_healthy_switch():
    with FakeSwitch([Job(1, 'ring', 4), Job(2, 'embeddings', 16, {11: 0.62, 3: 0.1}, 1e4)]) as switch, \
            Visit(switch) as page:
        page.wait('document.querySelectorAll(".member").length === 20')
        page.wait('document.querySelector("#packets dd").textContent.includes("M/s")')
        has(page.text, 'rack7', r'10\.77\.0\.254', 'live', r'No block is stuck\. 2 jobs run, 4 ports up',
            r'23 of 64', r'All 4 hosts keep pace', r'Job embeddings: rank 11 \(10\.77\.1\.12\) caused 62 % of the time\.',
            r'1 late; 15 of 16', r'duplicate\s+[\d.]+/s\s+18 233', r'payload added\s+[\d.]+ [GM]bit/s', r'block latency\s+412 µs',
            r'0\s+−5 min\s+−3 min\s+−1 min\s+now', r'lcore 1\s+\d+ % busy',
            r'19\.0 MiB of 64\.0 MiB', r'31 dropped at a full queue', r'MTU 1500')
        check('malformed' not in page.text(), 'a reason that never happened is shown')
        wait_for(lambda: members(page, 1)[11] == 'late', 'members: %s', lambda: members(page, 1))
        becomes(8, page.ask, '[...document.querySelectorAll("#ports .chart path.area, #ports .chart path.line")]'
                             '.filter((p) => p.getAttribute("d").length > 1000).length')
        becomes('rack7', page.ask, 'document.title')
        # The members of a large job open by keyboard, and stay open.
        page.ask('document.querySelectorAll("button.more")[1].focus()')
        page.key('Enter')
        page.wait('document.querySelectorAll(".job")[1].querySelectorAll("tbody tr").length === 16')
        rounds(switch)
        becomes('Only those to look at', page.ask, 'document.activeElement.textContent')  # it has the focus still
        # The charts' cursor.
        page.ask('document.querySelector("#ports .chart").focus()')
        page.key('ArrowLeft')
        has(lambda: page.text('#ports .reading'), r'^1 s ago: rx [\d.]+ [MG]bit/s, tx')


@case
def troubles_are_told():
    with FakeSwitch([Job(1, 'ring', 4)]) as switch, Visit(switch) as page:
        page.wait('document.querySelectorAll(".member").length === 4')
        check(not re.search('purpose|elsewhere', page.text()), 'told when there are none')
        switch.faults = {'rules': 2, 'elapsed_ms': 185000, 'hit': 12345, 'held_now': 0}
        has(page.text, r'Faults are set on purpose\. 2 rules, for 3 min', r'12 345 packets were hit\. '
            r'weirctl faults lists them\.')
        has(lambda: page.ask('document.title'), '^! faults are set on purpose')
        switch.spoofed['p2'] = 1234
        has(lambda: page.text('#troubles'), 'Port p2 sends addresses')
        has(lambda: page.text('#ports'), r'1 234 with an address that belongs elsewhere')


@case
def a_host_dies():
    with FakeSwitch([Job(1, 'ring', 4), Job(2, 'other', 2)]) as switch, Visit(switch) as page:
        page.wait('document.querySelectorAll(".member").length === 6')
        switch.jobs[0].dead[2] = time.monotonic()
        page.wait('document.querySelector(".member.dead")')
        becomes(1, page.ask, 'document.querySelectorAll(".job .meter.full").length')
        becomes(['well', 'well', 'dead', 'well'], members, page)
        has(lambda: page.text('#verdict'), r'Job ring: 64 blocks 17\.\.80 wait for rank 2 \(10\.77\.0\.3\), '
            r'last heard [\d.]+ s ago; policy wait\.\s+the oldest open for [\d.]+ s\.')
        has(lambda: page.text('.job tr.dead'), r'2\s+10\.77\.0\.3\s+p2\s+✕ silent\s+now\s+\d.* ago')
        page.wait('document.title.startsWith("✕ job ring waits for rank 2")')
        becomes([['failure', 'stuck: waits for rank 2'], ['running', 'running, generation 7']], page.ask,
                '[...document.querySelectorAll(".job .badge")].map((b) => [b.classList[1], b.textContent])')
        spoken = page.text('#spoken')
        rounds(switch)
        check(page.text('#spoken') == spoken, 'it is spoken again: %s', spoken)
        switch.routes['/v1/blocks'] = switch.unknown  # who is silent while others speak is a remark of the job
        page.wait('/nothing comes from rank 2 .10.77.0.3., last heard/.test(document.querySelector("#verdict").innerText)')
        switch.routes.clear()
        page.wait('/64 blocks 17..80 wait/.test(document.querySelector("#verdict").innerText)')
        # Another one dies, and both return.
        switch.jobs[0].dead[1] = time.monotonic() - 9
        has(lambda: page.text('#verdict'), r'last heard [\d.]+ s ago; and for rank 1 \(10\.77\.0\.2\), last heard [\d.]+ s ago')
        has(lambda: page.ask('document.title'), '✕ job ring waits for ranks 2, 1')
        switch.jobs[0].dead.clear()
        page.wait('!document.querySelector(".member.dead, .trouble, .job .badge:not(.running)")')


def parent(name, **more):
    return dict({'name': name, 'address': '10.78.0.254', 'port': 'p3', 'generation': 11, 'serves': True,
                 'silent_ms': 1.5, 'joining': False}, **more)


@case
def a_tree_is_shown():
    leaf, root = Job(1, 'ring', 4), Job(2, 'above', 2)
    leaf.tree = {'ranks': 8, 'first_rank': 4, 'parents': [parent('spine0'), parent('spine1', serves=False),
                                                          parent('spine2', joining=True, silent_ms=None)]}
    root.switches = ['leaf0', 'leaf1']
    with FakeSwitch([leaf, root, Job(3, 'plain', 2)]) as switch, Visit(switch) as page:
        page.wait('document.querySelectorAll(".parents tbody tr").length === 3')
        page.wait('document.querySelectorAll(".member").length === 8')
        becomes([False, True, True], page.ask, '[...document.querySelectorAll(".parents")].map((p) => p.hidden)')
        has(lambda: page.text('.job'), r'ranks 4\.\.7 of 8',
            r'spine0\s+10\.78\.0\.254\s+p3\s+serves\s+11\s+2 ms ago',
            r'spine1\s+.*not used', r'spine2\s+.*joining\s+11\s+never', r'All 4 hosts keep pace',
            r'0\.\.3\s+leaf0, 10\.77\.1\.1', r'4\.\.7\s+leaf1, 10\.77\.1\.2', r'All 2 switches keep pace')
        has(lambda: page.ask('document.querySelectorAll(".job")[1].querySelectorAll(".member")[1].title'),
            r'^leaf1, ranks 4\.\.7, 10\.77\.1\.2: well')
        check('Parents' not in page.text('.job:last-child'), 'a job without parents')
        # What the leaf waits for, and a silent parent.
        leaf.waits, leaf.tree['parents'][0]['silent_ms'] = 'spine0', 4200
        page.wait('document.querySelector(".parents tr.dead")')
        page.wait('document.querySelector(".job .badge").textContent === "stuck: waits for spine0"')
        has(lambda: page.text('#verdict'), r'Job ring: block 17 waits for spine0, last heard 4\.2 s ago\.')
        has(lambda: page.ask('document.title'), '✕ job ring waits for spine0')
        # A leaf that the parent waits for.
        leaf.waits, leaf.tree['parents'][0]['silent_ms'] = None, 1
        root.dead[1] = time.monotonic() - 9
        page.wait('document.querySelectorAll(".job .badge")[1].textContent === "stuck: waits for leaf1"')
        has(lambda: page.ask('document.title'), 'job above waits for leaf1')
        page.wait('!document.querySelector(".parents tr.dead")')


@case
def loaded_programs_are_shown():
    """As they describe themselves; built-in ones are not."""
    loaded = {'name': 'flows', 'file': 'flows.so', 'phase': 'running', 'help': 'counts flows', 'waits_for': None,
              'matches': ['UDP ports 48864..48879', 'IPv4 fragments'], 'counters': {'flows_seen': 12345}}
    columns = [{'key': key, 'help': 'of ' + key, 'kind': kind} for key, kind in (('source_ip', 'ipv4'), ('packets', 'number'))]
    tables = [{'name': 'largest', 'help': 'the largest flows', 'columns': columns,
               'rows': [{'source_ip': '10.77.0.%d' % n, 'packets': 7000 + n} for n in (1, 2)]},
              {'name': 'lost', 'help': 'others', 'columns': columns, 'rows': []}]
    with FakeSwitch([Job(1, 'ring', 4)]) as switch, Visit(switch) as page:
        page.wait('document.querySelectorAll(".member").length === 4')
        check(page.ask('document.getElementById("programs").hidden'), 'there are no programs')
        switch.routes['/v1/programs/flows'] = dict(loaded, settings={}, tables=tables)
        switch.routes['/v1/programs'] = {'programs': [dict(loaded, name='forward', file=None), loaded]}
        has(lambda: page.text('#programs'), 'counts flows · UDP ports 48864..48879 · IPv4 fragments', 'running',
            r'flows seen\s+12 345', r'source ip\s+packets', r'10\.77\.0\.2\s+7 002', 'lost · others\\s+Empty')
        check('forward' not in page.text('#programs'), 'a built-in program')
        switch.routes['/v1/programs/flows'].update(phase='unloading', waits_for='its sidecar')
        has(lambda: page.text('#programs'), 'unloading, waits for its sidecar')
        switch.routes['/v1/programs'] = {'programs': []}
        page.wait('document.getElementById("programs").hidden')


@case
def the_segments_are_drawn():
    """As boxes of each program, with its packets' ends, and lines between them."""
    segments = [{'name': 'parse', 'leads_to': ['count', 'hop:far', 'drop:truncated', 'drop:stale']},
                {'name': 'count', 'leads_to': ['count', 'consume']}, {'name': 'far', 'leads_to': ['send', 'missing']},
                {'name': 'age', 'leads_to': []}]
    program = {'name': 'flows', 'built_in': False, 'phase': 'running', 'matches': ['every packet'], 'segments': segments}
    with FakeSwitch([Job(1, 'ring', 4)]) as switch:
        switch.routes['/v1/graph'] = {'programs': [program, dict(program, name='none', segments=[])]}
        with Visit(switch) as page:
            page.wait('document.querySelectorAll("#graph .segment").length === 4')
            check(page.ask('document.querySelectorAll("#graph .edge").length') == 2, 'lines')
            check(page.ask('document.querySelectorAll("#graph .hop").length') == 1, 'lines of hops')
            page.ask('document.querySelector("#graph details").open = true')
            has(lambda: page.text('#graph'), 'flows · every packet', r'parse\s+2 drops', r'count\s+consume', r'far\s+send, missing')


@case
def the_switch_goes_away():
    with FakeSwitch([Job(1, 'ring', 4)]) as switch, Visit(switch) as page:
        page.wait('document.querySelectorAll(".member").length === 4')
        switch.stop()
        page.wait('!document.getElementById("lost").hidden')
        page.wait('document.getElementById("link").innerText.includes("no answer since 4")')
        has(lambda: page.text('#lost'), 'The switch does not answer')
        has(lambda: page.ask('document.title'), 'no answer')
        switch.start()
        page.wait('document.getElementById("lost").hidden')
        page.wait('document.title === "rack7"')
        # It is there, and says nothing.
        switch.flow.clear()
        page.wait('!document.getElementById("lost").hidden')
        switch.flow.set()
        page.wait('document.getElementById("lost").hidden')


@case
def hostile_names_are_only_text():
    jobs = [Job(n + 1, name, 3) for n, name in enumerate(HOSTILE)]
    for one, name in zip(jobs, HOSTILE):
        one.address = lambda rank, name=name: name
    jobs[0].dead[1] = time.monotonic() - 5
    with FakeSwitch(jobs, ports=HOSTILE, name=HOSTILE[0]) as switch:
        switch.routes['/v1/counters'] = (200, {'drops': dict.fromkeys(HOSTILE, 7)})
        with Visit(switch) as page:
            page.wait('document.querySelectorAll(".job").length === %d' % len(HOSTILE))
            page.wait('document.querySelector(".member.dead")')
            page.wait('document.querySelectorAll("#drops tbody tr").length === %d' % (len(HOSTILE) + 3))
            becomes(HOSTILE[0], page.ask, 'document.getElementById("name").textContent')
            names = page.ask('[...document.querySelectorAll(".job h3")].map((n) => n.textContent)')
            check(names[:4] == HOSTILE[:4], 'names: %s', names)
            check(names[4] == '\ufffdgnp.exe\ufffd', 'signs that turn the writing: %s', names[4])
            check(page.ask('document.querySelectorAll("img, script").length') == 2,
                  'a name became an element')
            check(page.ask('window.pwned') is None, 'a name became code')
            has(lambda: page.ask('document.title'), '<img src=x')


@case
def absurd_answers_do_no_harm():
    with FakeSwitch([Job(1, 'ring', 4)]) as switch:
        switch.routes.update({
            '/v1/history': (200, {'ports': [None, 7, {'name': None, 'rx_bps': 'x'}], 'jobs': {},
                                  'drops': {'late': [None, 'x', -5, 1e308, True]}}),
            '/v1/blocks': (200, {'stuck': [{}, {'missing': 'x'}, {'missing': [None, {}], 'job': 5}]}),
            '/v1/ports': (200, {'ports': 7}),
            '/v1/counters': (200, [1, 2]),
            '/v1/jobs': (500, b'<html>no'),
            '/v1/health': (503, {'error': {'message': 'worker 2 has been stuck for 4 s'}}),
        })
        with Visit(switch) as page:
            page.wait('document.querySelectorAll(".trouble").length >= 3')
            has(lambda: page.text('#verdict'), r'The switch answers 500 to /v1/jobs',
                'worker 2 has been stuck', 'Job 5: ')
            switch.routes['/v1/status'] = (200, b'{"name": ')
            page.wait('/answer to .v1.status is not JSON/.test(document.body.innerText)')
            for answer in (b'', b'null', b'[]', b'"x"', b'{"workers": [{"busy": {}}], "pools": [7]}'):
                switch.routes['/v1/status'] = (200, answer)
                rounds(switch)
            switch.routes.clear()
            page.wait('document.querySelectorAll(".member").length === 4')
            page.wait('!document.querySelector(".trouble")')


@case
def many_ports_members_and_joins():
    jobs = [Job(1, 'large', 256, {200: 0.7}), Job(2, 'begins', 8)] + [Job(n, 'job%d' % n, 2) for n in range(3, 15)]
    jobs[1].state, jobs[1].joined = 'joining', 5
    with FakeSwitch(jobs, ports=['port%d' % n for n in range(64)]) as switch, \
            Visit(switch) as page:
        page.wait('document.querySelectorAll(".member").length === 288')
        has(lambda: page.text('#verdict'), r'Job begins: has not begun: 5 of 8 sources have joined\.')
        wait_for(lambda: members(page, 1)[4:] == ['well'] + ['absent'] * 3, 'members: %s', lambda: members(page, 1))
        becomes(64, page.ask, 'document.querySelectorAll("article.port").length')
        rounds(switch)  # a large history is asked for less often, and the page goes on
        history = len([a for a in switch.asked if a[1] == '/v1/history'])
        check(history <= 2, 'a large history was asked for %d times', history)
        for one in jobs[2:12]:
            one.dead[1] = time.monotonic() - 5
        page.wait('document.querySelectorAll(".member.dead").length === 10')  # the members of all stuck jobs are asked for


@case
def a_token_is_asked_for():
    with FakeSwitch([Job(1, 'ring', 4)]) as switch:
        switch.token = 'secret'
        with Visit(switch) as page:
            page.wait('!document.getElementById("token").hidden')
            page.wait('!document.getElementById("unknown").hidden')
            has(lambda: page.text('#verdict'), 'Whether a block is stuck is not known: a token is needed')
            check('No block' not in page.text('#verdict'), 'all is well: %s', page.text('#verdict'))
            page.wait('document.title === "? Weir"')
            page.ask('document.getElementById("token-value").value = "secret"')
            page.ask('document.getElementById("token").requestSubmit()')
            page.wait('document.querySelectorAll(".member").length === 4')
            page.wait('document.getElementById("token").hidden')
            page.wait('document.getElementById("unknown").hidden')
            has(lambda: page.text('#verdict'), 'No block is stuck')


@case
def values_in_words():
    with FakeSwitch([]) as switch, Visit(switch) as page:
        has(page.text, 'No job is there yet', 'No block is stuck')
        for expression, wanted in (
                ('bits(0)', '0 bit/s'), ('bits(999)', '999 bit/s'), ('bits(999600)', '1.00 Mbit/s'),
                ('bits(12.34e9)', '12.3 Gbit/s'), ('perSecond(5)', '5/s'), ('perSecond(null)', '–'),
                ('perSecond(0.25)', '0.25/s'), ('whole(1234567)', '1 234 567'), ('age(0.05)', '50 ms'),
                ('age(9.96)', '10 s'), ('age(59.7)', '1 min'), ('age(3725)', '1 h 2 min'),
                ('age("x")', '–'), ('percent(0.625)', '63 %'), ('bytes(1536)', '1.50 KiB')):
            said = page.ask('import("/words.js").then((w) => w.%s)' % expression)
            said = said.replace('\u00a0', ' ').replace('\u202f', ' ')
            check(said == wanted, '%s is "%s", not "%s"', expression, said, wanted)


class Real:
    address = 'http://127.0.0.1:8080/'


@case
def a_real_switch():
    with Rack(hosts=2, jobs=[job(1, 2, window=32)]) as rack:
        rack.changes = {'api': {'listen': ['tcp:127.0.0.1:8080']}}
        rack.start_switch()
        for name in sorted(os.listdir(PAGE)):
            if name.endswith(('.py', '.build')):
                continue
            with open(os.path.join(PAGE, name), 'rb') as file:
                content = file.read()
            with rack.inside('sw'), urllib.request.urlopen(
                    Real.address + name.replace('index.html', ''), timeout=300) as answer:
                check(answer.read() == content, '%s differs', name)
                check(answer.headers['Content-Security-Policy'] == SECURITY, '%s: %s', name,
                      answer.headers['Content-Security-Policy'])
                check(answer.headers['X-Content-Type-Options'] == 'nosniff', '%s may be sniffed', name)
        for name in ('index.html', 'app.jsx', 'page.c', 'x' * 200, 'sub/app.js', '..%2fapp.js'):
            try:
                with rack.inside('sw'):
                    urllib.request.urlopen(Real.address + name, timeout=300)
                raise AssertionError('%s is there' % name)
            except urllib.error.HTTPError as answer:
                check(answer.code == 404, '%s: status %d', name, answer.code)
        with Visit(Real, ['ip', 'netns', 'exec', rack.namespace('sw')]) as page:
            page.wait('document.querySelectorAll(".job").length === 1')
            # They are killed in the end.
            runs = [rack.perf(host, 1, '-b', '1M', '-e', '1M', '-n', 1000000) for host in range(2)]
            page.wait('[...document.querySelectorAll(".port .value")].filter((v) => '
                      '/[1-9].*[kMG]bit.s/.test(v.textContent)).length === 4')
            page.wait('/[1-9].*s/.test(document.querySelector(".job dd").textContent)')
            has(page.text, 'live', 'No block is stuck', r'job 1 · fp32 sum', 'policy wait',
                r'lcore \d+\s+\d+ % busy', 'data memory', r'p0\s+up')
            for run in runs:
                run.kill()
        rack.stop_switch()


if __name__ == '__main__':
    main()
