# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch programs (torch_ranks.py) on the hosts of a rack or tree."""
import os
import sys

from tap import Skip
from mpi import SWITCH
from rack import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))


def start(rack, *specs, place='sw', **more):
    """The ranks of these cases of torch_ranks.py. place: that starts them. more: variables of all ranks."""
    if not any(os.path.exists(os.path.join(path, 'torch', '__init__.py')) for path in sys.path):
        raise Skip('PyTorch is not installed (.ci/install packages.torch)')
    around = {key: value for key, value in os.environ.items() if not key.startswith('WEIR_')}
    around.update(PYTHONPATH=os.path.join(ROOT, 'apps', 'python'), OMP_NUM_THREADS='1', FOLDER=rack.folder, WEIR_SWITCH=SWITCH,
                  WEIR_LIBRARY=os.path.join(rack.build, 'apps', 'libweir', 'libweir.so'), **more)
    return rack.spawn(place, [sys.executable, os.path.join(HERE, 'torch_ranks.py'), *specs, '--',
                             *(rack.namespace(host) for host in range(rack.hosts))], specs[0].partition(',')[0], around)
