# SPDX-License-Identifier: BSD-3-Clause
"""Where an object's elements are, how many, and of which type; without a copy, and without importing numpy or torch."""
import sys
from ctypes import Structure, addressof, byref, c_char, c_char_p, c_int, c_ssize_t, c_void_p, py_object, pythonapi
from typing import Any, Dict, Optional, Tuple

from ._abi import DTYPES

Kind = Tuple[int, int]  # enum weir_dtype, bytes of an element

# Types by their letter in struct's formats and their size, and by numpy's and torch's names.
FORMATS: Dict[Tuple[str, int], Kind] = {
    (order + letter, size): DTYPES['%s%d' % (name, size * 8)]
    for order in ('', '@', '=', '<' if sys.byteorder == 'little' else '>')
    for letters, name, sizes in (('bhilqn', 'int', (1, 2, 4, 8)), ('BHILQN', 'uint', (1, 2, 4, 8)), ('efd', 'fp', (2, 4, 8)))
    for letter in letters for size in sizes}
NAMES: Dict[str, Kind] = {
    text.replace('bf', 'bfloat').replace('fp', 'float') + 'fn' * text.endswith('e4m3'): kind
    for text, kind in DTYPES.items()}


class _View(Structure):
    """Python's Py_buffer."""
    _fields_ = [('buf', c_void_p), ('obj', c_void_p), ('len', c_ssize_t), ('itemsize', c_ssize_t),
                ('readonly', c_int), ('ndim', c_int), ('format', c_char_p), ('shape', c_void_p), ('strides', c_void_p),
                ('suboffsets', c_void_p), ('internal', c_void_p)]


_get, _release = pythonapi.PyObject_GetBuffer, pythonapi.PyBuffer_Release
_get.argtypes, _get.restype = [py_object, c_void_p, c_int], c_int
_release.argtypes, _release.restype = [c_void_p], None


def _address(data: memoryview) -> int:
    """Where read-only data is; ctypes itself tells of writable data only."""
    view = _View()
    _get(data, byref(view), 0)
    _release(byref(view))
    return int(view.buf)


def dtype_kind(name: str) -> Kind:
    """A type by its name, Weir's or numpy's."""
    kind = DTYPES.get(name) or NAMES.get(name)
    if kind is None:
        raise ValueError('dtype: %r is none of %s' % (name, ', '.join(DTYPES)))
    return kind


class Buffer:
    """The elements of an object."""
    __slots__ = ('address', 'count', 'kind', 'keep')
    keep: Any

    def __init__(self, data: Any, dtype: Optional[str], role: str, writable: bool) -> None:
        """role: what error texts call it. Raises TypeError, ValueError or BufferError."""
        kind: Optional[Kind]
        if hasattr(data, 'data_ptr'):
            kind, itemsize, length = self._tensor(data, role)
        else:
            try:
                view = memoryview(data)
                kind = FORMATS.get((view.format, view.itemsize))
            except TypeError:
                raise TypeError('%s: %s has no buffer' % (role, type(data).__name__)) from None
            except ValueError as error:  # numpy exports no buffer of types that are not its own
                kind = NAMES.get(str(getattr(data, 'dtype', '')))
                if kind is None:
                    raise TypeError('%s: %s' % (role, error)) from None
                view = memoryview(data.view('u%d' % kind[1]))
            if not view.c_contiguous:
                raise BufferError('%s is not contiguous (in the order of C)' % role)
            if writable and view.readonly:
                raise BufferError('%s is read-only' % role)
            # While `keep` exists, the object neither moves nor frees the data.
            self.keep, itemsize, length = view, view.itemsize, view.nbytes
            self.address = 0 if not length else _address(view) if view.readonly else addressof(c_char.from_buffer(view))
        if dtype is not None:
            known, kind = kind, dtype_kind(dtype)
            if itemsize not in (1, kind[1]) and (known or itemsize % kind[1]):
                raise TypeError('%s: items of %d bytes are not %s' % (role, itemsize, dtype))
        if kind is None:
            raise TypeError('%s: Weir has no type for %s; dtype can name one' % (
                role, getattr(data, 'dtype', None) or 'the format ' + view.format))
        self.kind = kind
        self.count, rest = divmod(length, kind[1])
        if rest:
            raise ValueError('%s: %d bytes are not a number of elements of %d' % (role, length, kind[1]))

    def _tensor(self, tensor: Any, role: str) -> Tuple[Optional[Kind], int, int]:
        """Of PyTorch."""
        if tensor.device.type != 'cpu':
            raise TypeError('%s: a tensor on %s, not in host memory' % (role, tensor.device))
        if 'strided' not in str(tensor.layout) or not tensor.is_contiguous():
            raise BufferError('%s is not contiguous' % role)
        self.keep, self.address = tensor, tensor.data_ptr()
        itemsize: int = tensor.element_size()
        return NAMES.get(str(tensor.dtype).replace('torch.', '')), itemsize, itemsize * tensor.numel()
