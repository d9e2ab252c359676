# SPDX-License-Identifier: BSD-3-Clause
"""weir-faults, for tests of it: run as a program, or its modules imported."""
import importlib.machinery
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PROGRAM = os.path.join(ROOT, 'apps', 'faults', 'weir-faults')
sys.dont_write_bytecode = True
sys.path[:0] = [os.path.join(ROOT, *place) for place in (
    ('tests', 'functional'), ('apps', 'faults'), ('apps', 'rack'))]


def module():
    """The program as a module."""
    loader = importlib.machinery.SourceFileLoader('weir_faults', PROGRAM)
    made = importlib.util.module_from_spec(importlib.util.spec_from_loader('weir_faults', loader))
    loader.exec_module(made)
    return made


class Ended:
    """A run of weir-faults on files, or on scenarios that are written into files first. before: words before the command."""

    def __init__(self, command, *files, options=(), before=(), seconds=850):
        with tempfile.TemporaryDirectory(prefix='weir-scenario-') as folder:
            os.chmod(folder, 0o777)
            paths = []
            for number, file in enumerate(files):
                if not isinstance(file, str):
                    path = os.path.join(folder, 'scenario%d.json' % number)
                    with open(path, 'w') as to:
                        json.dump(file, to)
                    file = path
                paths.append(file)
            report = os.path.join(folder, 'report')
            more = ['--json=' + report, '--junit=%s.xml' % report] if command in ('run', 'all') else []
            run = subprocess.run([*before, PROGRAM, command, *paths, *more, *map(str, options)], text=True,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=seconds, check=False)
            self.status, self.output, self.report, self.junit = run.returncode, run.stdout, None, None
            if os.path.exists(report):
                with open(report) as written:
                    self.report = json.load(written)
            if os.path.exists(report + '.xml'):
                self.junit = xml.parse(report + '.xml')

    def __str__(self):
        return 'status %d\n%s' % (self.status, self.output)
