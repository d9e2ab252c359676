# SPDX-License-Identifier: BSD-3-Clause
"""Find libweir and declare its functions."""
import ctypes
import functools
import os
from typing import Optional

from . import _abi


@functools.lru_cache(maxsize=None)
def library(path: Optional[str] = None) -> ctypes.CDLL:
    """The library, with the types of its functions. path: where it is; otherwise WEIR_LIBRARY, a copy in the package's
    folder, or what the dynamic linker finds. Raises OSError if there is none."""
    path = path or os.environ.get('WEIR_LIBRARY')
    if not path:
        beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), _abi.SONAME)
        path = beside if os.path.exists(beside) else _abi.SONAME
    try:
        loaded = ctypes.CDLL(path)
    except OSError as error:
        raise OSError('%s: install the package lib%s, or set WEIR_LIBRARY to the path of %s' % (
            error, _abi.SONAME[3:].replace('.so.', ''), _abi.SONAME)) from None
    for name, (result, arguments) in _abi.FUNCTIONS.items():
        function = getattr(loaded, name, None)  # an older library of this ABI has fewer
        if function is not None:
            function.restype, function.argtypes = result, arguments
    return loaded
