# SPDX-License-Identifier: BSD-3-Clause
"""What `meson install` makes of the build under test, in a folder that is thrown away."""
import glob
import json
import os
import shutil
import subprocess
import tempfile

from tap import check

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get('WEIR_BUILD') or os.path.join(ROOT, 'build'))


def call(argv, **options):
    done = subprocess.run(argv, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=900, check=False, **options)
    check(done.returncode == 0, '%s: exit status %d\n%s', ' '.join(argv), done.returncode,
          done.stdout)
    return done.stdout


def option(name):
    with open(os.path.join(BUILD, 'meson-info', 'intro-buildoptions.json')) as file:
        return next(o['value'] for o in json.load(file) if o['name'] == name)


class Stage:
    """`meson install` into a folder."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix='weir-stage-')
        try:
            call(['meson', 'install', '-C', BUILD, '--no-rebuild', '--quiet'],
                 env=dict(os.environ, DESTDIR=self.folder))
        except BaseException:
            self.__exit__()
            raise
        self.prefix = self.folder + option('prefix')
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.prefix, *names)

    @property
    def pkgconfig(self):
        """Its folder, and the environment in which pkg-config puts the stage before all paths."""
        (found,) = glob.glob(self.path('lib', '**', 'libweir.pc'), recursive=True)
        where = os.path.dirname(found)
        return where, dict(os.environ, PKG_CONFIG_PATH=where, PKG_CONFIG_SYSROOT_DIR=self.folder)

    @property
    def libraries(self):
        return os.path.dirname(self.pkgconfig[0])

    def flags(self, *options):
        """What pkg-config says."""
        return call(['pkg-config', *options, 'libweir'], env=self.pkgconfig[1]).split()
