#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Programs that a running switch loads, shows and unloads: by the control API and by its configuration."""
import contextlib
import json
import os
import re
import socket

from control import Control, offer_programs, tenant
from ctl import ctl, good, says
from fake_api import FakeApi
from rack import Rack, job
from tap import case, check, main, wait_for

FIRST = 48864  # of the 16 UDP ports that the program takes
SIDECAR = '''#!/bin/sh
sleep 1000 &
echo $! > %(folder)s/child
echo "I am $WEIR_PROGRAM of $WEIR_SWITCH_IP, port $WEIR_SETTING_PORT, $WEIR_SETTING_QUICK"
wait
'''


@contextlib.contextmanager
def switch(*files, api=None, workers=1, **changes):
    """A rack of two hosts and its control API; its switch has a directory with these files of the tests."""
    with Rack(hosts=2, jobs=[job(1, 2)], workers=workers) as rack:
        rack.changes = changes
        folder = offer_programs(rack, *files)
        with open(os.path.join(folder, 'loaded_sidecar'), 'w') as file:
            file.write(SIDECAR % {'folder': rack.folder})
        os.chmod(os.path.join(folder, 'loaded_sidecar'), 0o755)
        yield rack, Control(rack, **(api or {})), folder


def load(api, file, status=201, code=None, key=None, path='/v1/programs', who=(), **settings):
    return api.do('POST', path, {'file': file, 'settings': settings}, status, code, key, **dict(who))


def unload(api, name):
    """And wait until it is gone."""
    api.do('DELETE', '/v1/programs/' + name, status=(200, 202))
    wait_for(lambda: name not in [p['name'] for p in api.get('/v1/programs')['programs']], '%s does not go', name)


def send(rack, host, port, count):
    """UDP packets from a host to the switch's address."""
    with rack.inside(host):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            for _ in range(count):
                sender.sendto(b'x' * 20, ('10.77.0.254', port))


def metrics(api):
    return dict(re.findall(r'^(weir_loaded\w+) (\d+)$', api.unix('GET', '/metrics').text.decode(), re.M))


@case
def a_program_comes_and_goes():
    with switch('loaded.so', workers=2) as (rack, api, _):
        rack.start_switch()
        built_in = [p['name'] for p in api.get('/v1/programs')['programs']]
        check(built_in == ['collective', 'exception', 'forward'], '%s', built_in)
        check(metrics(api) == {}, '%s', metrics(api))
        for turn in range(3):
            made = load(api, 'loaded.so', label='turn %d' % turn)
            check(made['phase'] == 'running' and made['matches'] == ['UDP ports 48864..48879'], '%s', made)
            check(made['settings'] == {'port': FIRST, 'then': 'consume', 'quick': False, 'peer': '239.1.2.3',
                                       'label': 'turn %d' % turn}, '%s', made)
            load(api, 'loaded.so', 409, 'exists')
            send(rack, 0, FIRST + 15, 3)
            send(rack, 1, FIRST, 4)
            send(rack, 1, FIRST + 16, 1)
            wait_for(lambda: api.get('/v1/programs/loaded')['counters']['loaded_packets'] == 7, 'the packets')
            shown = api.get('/v1/programs/loaded')
            rows = sorted((row['address'], row['mac'], row['port'], row['packets']) for row in shown['tables'][0]['rows'])
            check(rows == [(rack.address(h), rack.mac(h), 'p%d' % h, n) for h, n in ((0, 3), (1, 4))], '%s', rows)
            check([c['kind'] for c in shown['tables'][0]['columns']] == ['ipv4', 'mac', 'port', 'number'], '%s', shown)
            check(metrics(api) == {'weir_loaded_packets_total': '7', 'weir_loaded_sources': '2'}, '%s', metrics(api))
            names = [p['name'] for p in api.get('/v1/programs')['programs']]
            check(names == ['collective', 'loaded', 'exception', 'forward'], '%s', names)
            unload(api, 'loaded')
            check(metrics(api) == {}, '%s', metrics(api))
        api.do('GET', '/v1/programs/loaded', status=404, code='unknown_program')
        api.do('DELETE', '/v1/programs/loaded', status=404, code='unknown_program')
        api.do('DELETE', '/v1/programs/collective', status=409, code='conflict')
        rack.check_packets()
        rack.stop_switch()


@case
def what_is_refused_changes_nothing():
    with switch('loaded.so', 'hangs.so', 'crashes.so', 'version.so') as (rack, api, folder):
        rack.start_switch()
        load(api, 'loaded.so', 400, 'out_of_range', 'settings.port', port=80)
        load(api, 'loaded.so', 400, 'wrong_type', 'settings.quick', quick=1)
        load(api, 'loaded.so', 400, 'unknown_key', 'settings.prot', prot=1)
        load(api, 'loaded.so', 400, 'out_of_range', 'file', label='refuse')  # its create() fails
        for name in ('hangs.so', 'crashes.so', 'version.so', 'none.so', 'loaded_sidecar'):
            load(api, name, 400, 'out_of_range', 'file')
        load(api, '../loaded.so', 400, 'out_of_range', 'file')
        os.chmod(os.path.join(folder, 'loaded.so'), 0o666)
        load(api, 'loaded.so', 400, 'out_of_range', 'file')
        os.chmod(os.path.join(folder, 'loaded.so'), 0o644)
        made = load(api, 'loaded.so', path='/v1/programs?dry_run=1', port=2000)
        check(made['settings']['port'] == 2000 and made['dry_run'], '%s', made)
        check(len(api.get('/v1/programs')['programs']) == 3, 'nothing is loaded')
        load(api, 'loaded.so', port=2000)
        check(api.do('DELETE', '/v1/programs/loaded?dry_run=1')['state'] == 'gone', 'dry')
        check(api.get('/v1/programs/loaded')['settings']['port'] == 2000, 'it is still there')
        rack.stop_switch()


@case
def over_tcp_only_if_the_configuration_says_so():
    for allowed in (False, True):
        section = {'tenants': [tenant('root', admin=True), tenant('vision')],
                   **({'load_programs_over_tcp': True} if allowed else {})}
        with switch('loaded.so', api=section) as (rack, api, _):
            rack.start_switch()
            load(api, 'loaded.so', 403, 'forbidden', who={'token': 'vision'})
            answer = load(api, 'loaded.so', 201 if allowed else 403, who={'token': 'root'})
            check(allowed or 'api.load_programs_over_tcp' in answer['error']['message'], '%s', answer)
            if not allowed:
                load(api, 'loaded.so')
            check('loaded' in [p['name'] for p in api.get('/v1/programs', token='root')['programs']], 'it is there')
            api.do('GET', '/v1/programs', status=403, code='forbidden', token='vision')
            rack.stop_switch()  # with the program


@case
def weirctl_loads_shows_and_unloads():
    with switch('loaded.so') as (rack, api, _):
        rack.start_switch()
        address = 'unix:' + api.path
        good(ctl(address, 'program', 'list'))
        run = ctl(address, 'program', 'load', 'loaded', 'port=3000', 'then=drop', 'label=x y', '--dry-run')
        says(run, 0, r'^settings port=3000 then="drop" quick=false peer="239.1.2.3" label="x y"$')
        says(ctl(address, 'program', 'show', 'loaded'), 1, 'no program is called "loaded"')
        says(ctl(address, 'program', 'load', 'loaded.so', 'port=1'), 1, 'settings.port: 1 is not in 1024..65535')
        says(ctl(address, 'program', 'load', 'loaded.so', 'port'), 2, 'there is no command program')
        says(ctl(address, 'program', 'load'), 2, 'FILE is missing')
        says(ctl(address, 'program', 'load', 'loaded.so', 'port=3000'), 0, r'^program  loaded, loaded\.so, running: counts',
             r'^packets  UDP ports 2992\.\.3007$')
        send(rack, 1, 3000, 5)
        wait_for(lambda: api.get('/v1/programs/loaded')['counters']['loaded_packets'] == 5, 'the packets')
        says(ctl(address, 'program', 'list'), 0, r'^PROGRAM +PHASE +FILE +PACKETS +WHAT IT DOES$',
             r'^loaded +running +loaded\.so +UDP ports 2992\.\.3007 +counts packets by source$', r'^forward +running +built in ')
        says(ctl(address, 'program', 'show', 'loaded'), 0, r'^loaded_packets +5$', '^sources: senders of packets$',
             '^ADDRESS +MAC +PORT +PACKETS$', r'^%s +%s +p1 +5$' % (re.escape(rack.address(1)), rack.mac(1)))
        shown = json.loads(good(ctl(address, '--json', 'program', 'show', 'loaded')))
        check(shown == api.get('/v1/programs/loaded'), '%s', shown)
        says(ctl(address, 'program', 'unload', 'loaded'), 0, '^gone$')
        says(ctl(address, 'program', 'unload', 'loaded'), 1, 'there is no such program')
        says(ctl(address, 'program', 'unload', 'forward'), 1, 'it is built in')
        rack.stop_switch()
    with FakeApi() as fake:
        fake.routes['/v1/programs/x'] = lambda handler: (
            (202, {'state': 'unloading'}) if handler.command == 'DELETE' else {'name': 'x', 'waits_for': 'its sidecar'})
        says(ctl(fake.address, '--timeout', '0.2s', 'program', 'unload', 'x'), 1, 'it waits for its sidecar', 'is not gone after 0.2 s')


@case
def the_control_thread_is_not_kept_busy_by_strangers():
    with switch() as (rack, api, _):
        rack.start_switch()
        with contextlib.closing(api.connect('sw')) as connection:
            found = [api.ask_once(connection, 'GET', '/v1/programs', None, None, ()).status for _ in range(400)]
        check(found[0] == 200 and 429 in found and set(found) == {200, 429}, '%s', set(found))
        check(len(api.get('/v1/programs')['programs']) == 3, 'an administrator is served')
        rack.stop_switch()


def alive(pid):
    try:
        with open('/proc/%d/stat' % pid) as file:
            return file.read().rsplit(')', 1)[1].split()[0] != 'Z'
    except OSError:
        return False


@case
def the_configuration_loads_programs_and_their_sidecars():
    for end in ('unload', 'stop', 'kill'):
        with switch('sidecar.so', programs=[{'file': 'sidecar.so', 'settings': {'port': 3000, 'quick': True}}]) as (rack, api, _):
            rack.start_switch()
            shown = api.get('/v1/programs/loaded')
            check(shown['file'] == 'sidecar.so' and shown['settings']['port'] == 3000, '%s', shown)
            wait_for(lambda: 'I am loaded of 10.77.0.254, port 3000, true' in rack.switch.output, 'the sidecar says nothing')
            pids = [shown['sidecar']['pid']]
            with open(os.path.join(rack.folder, 'child')) as file:
                pids.append(int(file.read()))
            if end == 'unload':
                os.kill(pids[0], 9)
                wait_for(lambda: api.get('/v1/programs/loaded')['sidecar']['starts'] == 2, 'it is not started again')
                wait_for(lambda: rack.switch.output.count('I am loaded') == 2, 'the second one says nothing')
                pids = [api.get('/v1/programs/loaded')['sidecar']['pid']]
                unload(api, 'loaded')
            if end == 'kill':
                rack.switch.kill()
                pids.pop()  # the kernel ends the sidecar, not its children
            else:
                rack.stop_switch()
            wait_for(lambda: not any(map(alive, pids)), '%s still run', pids)


@case
def the_first_of_two_gets_what_both_match():
    files = [{'file': 'other.so', 'settings': {'port': 3000}}, {'file': 'loaded.so', 'settings': {'port': 3000}}]
    with switch('loaded.so', 'other.so', programs=files, workers=2) as (rack, api, _):
        rack.start_switch()
        names = [p['name'] for p in api.get('/v1/programs')['programs']]
        check(names == ['collective', 'other', 'loaded', 'exception', 'forward'], '%s', names)
        wait_for(lambda: {p['phase'] for p in api.get('/v1/programs')['programs']} == {'running'}, 'they do not run')

        def rows(name):
            return [row['packets'] for row in api.get('/v1/programs/' + name)['tables'][0]['rows']]
        send(rack, 0, 3000, 5)
        wait_for(lambda: rows('other') == [5], 'the packets')
        unload(api, 'other')
        send(rack, 0, 3000, 6)
        wait_for(lambda: rows('loaded') == [6], 'the packets of the second one')
        load(api, 'other.so', port=3000)  # now it is the second one
        send(rack, 0, 3000, 1)
        wait_for(lambda: rows('loaded') == [7], 'the packets of the first one')
        rack.write_config()
        api.do('POST', '/v1/reload')  # keeps both
        del rack.changes['programs'][0]
        rack.write_config()
        refused = api.do('POST', '/v1/reload', status=409)
        check('programs' in refused['error']['message'], '%s', refused)
        check(rows('other') == [] and rows('loaded') == [7], 'a reload has changed them')
        rack.stop_switch()


@case
def the_settings_of_a_file_are_printed():
    with switch('loaded.so', 'version.so') as (rack, _, folder):
        for name, status, says_ in (('loaded.so', 0, '| `port` | integer | udp | `48864` | 1024..65535 | First of 16 UDP ports. |'),
                                    ('loaded.so', 0, '| `then` | word | | `consume` | consume, drop | What happens to packets. |'),
                                    ('version.so', 2, 'it was built for version')):
            run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '--program', os.path.join(folder, name)])
            check(run.end(60) == status and says_ in run.output, '%s', run.output)


@case
def a_wrong_configuration_does_not_start():
    for entry, place in (({'file': 'loaded.so', 'settings': {'port': 1}}, 'programs[0].settings.port: 1 is not in 1024..65535'),
                         ({'file': 'version.so'}, 'programs[0].file: it was built for version')):
        with switch('loaded.so', 'version.so', programs=[entry]) as (rack, _, _):
            path = rack.write_config()
            for option in ('--check', None):
                run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', path, *([option] if option else [])])
                check(run.end(60) == 2, 'status')
                check(re.search(r'switch\.json:\d+:\d+: ' + re.escape(place), run.output), '%s', run.output)
    with switch('loaded.so', programs=[{'file': 'loaded.so', 'settings': {'label': 'refuse'}}]) as (rack, _, _):
        run = rack.spawn('sw', [rack.program(('switch', 'weir-switch')), '-c', rack.write_config()])
        check(run.end(60) == 1 and 'program loaded: its create() fails: No such device' in run.output, '%s', run.output)


if __name__ == '__main__':
    main()
