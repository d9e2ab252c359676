#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A rank of test_python.py: python_rank.py PART. WEIR_... in its environment say which."""
import array
import contextlib
import errno
import gc
import os
import pickle
import re
import signal
import sys
import threading
import time
import weakref

import numpy as np

import weir
from weir import _abi

FOLDER = os.environ['TEST_FOLDER']  # of files by which ranks tell each other


def check(good, message, *values):
    if not good:
        raise AssertionError(message % values)


def raises(kind, pattern, function, *arguments, **more):
    """Call it; returns the exception that it must raise."""
    try:
        function(*arguments, **more)
    except Exception as error:
        check(type(error) is kind and re.search(pattern, str(error)), '%r is not %s "%s"', error, kind, pattern)
        return error
    raise AssertionError('no %s "%s"' % (kind, pattern))


def tell(what):
    open(os.path.join(FOLDER, what), 'w').close()


def hear(what):
    until = time.monotonic() + 300
    while not os.path.exists(os.path.join(FOLDER, what)):
        check(time.monotonic() < until, 'not told: %s', what)
        time.sleep(0.002)


# -- every collective with every type

COUNT = 5


def fp8(exponent, fraction):
    """The bytes of 0 ... 8, exact in each format."""
    made = [0]
    for number in range(1, 9):
        power = number.bit_length() - 1
        made.append((power + (1 << exponent - 1) - 1 << fraction) | ((number << fraction >> power) - (1 << fraction)))
    return np.array(made, np.uint8)


def kinds():
    """(name, dtype argument, makes an array of small numbers)"""
    for name in ('int8', 'uint8', 'int16', 'uint16', 'int32', 'uint32', 'int64', 'uint64', 'float16', 'float32', 'float64'):
        yield name, None, lambda numbers, name=name: np.array(numbers, name)
    yield 'bf16', 'bf16', lambda numbers: (np.array(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    for name, form in (('fp8_e4m3', (4, 3)), ('fp8_e5m2', (5, 2))):
        yield name, name, lambda numbers, form=form: fp8(*form)[numbers]


def numbers(rank, n):
    return [(i * 5 + rank * 7 + i // 3) % 3 for i in range(n * COUNT)]


def wanted(name, n, rank, root):
    """What a rank receives, from what all send."""
    sent = [numbers(r, n) for r in range(n)]
    own = slice(rank * COUNT, (rank + 1) * COUNT)
    sums = [sum(column) for column in zip(*sent)]
    return {'allreduce': sums[:COUNT], 'reduce': sums[:COUNT] if rank == root else None, 'reducescatter': sums[own],
            'broadcast': sent[root][:COUNT], 'scatter': sent[root][own],
            'gather': sum((s[:COUNT] for s in sent), []) if rank == root else None,
            'allgather': sum((s[:COUNT] for s in sent), []),
            'alltoall': sum((s[own] for s in sent), [])}[name]


def operate(comm, name, make, dtype, root, in_place, nonblocking):
    """Call a collective, and compare what it returns."""
    n, rank = comm.size, comm.rank
    own = slice(rank * COUNT, (rank + 1) * COUNT)
    want = wanted(name, n, rank, root)
    large = name in ('reducescatter', 'scatter', 'alltoall')
    mine = make(numbers(rank, n)[:n * COUNT if large else COUNT])
    more = {'dtype': dtype}
    if name in ('reduce', 'broadcast', 'scatter', 'gather'):
        more['root'] = root
    receive = None if want is None else make([0] * len(want))
    part = slice(None)
    if name == 'scatter' and rank != root:
        mine = None
    elif in_place and name in ('gather', 'allgather') and want is not None:
        whole = make([0] * n * COUNT)
        whole[own] = mine
        mine, receive = whole, None
    elif in_place:
        receive, part = None, own if name in ('reducescatter', 'scatter') else part
        if name == 'broadcast' and rank != root:
            mine[:] = 0
    before = None if mine is None else mine.copy()
    if nonblocking:
        request = getattr(comm, 'i' + name)(mine, receive, **more)
        found = request.wait()
        check(request.done and request.test() and request.wait() is found, 'a request that has ended')
    else:
        found = getattr(comm, name)(mine, receive, **more)
    what = '%s %s root %d in place %d' % (name, dtype or mine is not None and mine.dtype, root, in_place)
    check(found is (None if want is None else mine if receive is None else receive), '%s returns %r', what, found)
    if want is not None:
        check((found[part] == make(want)).all(), '%s: %s, not %s', what, found[part], make(want))
    if receive is not None and mine is not None:
        check((mine == before).all(), '%s changed send', what)


def collectives():
    with weir.open() as comm:  # the environment says everything
        check((comm.rank, comm.size) == (int(os.environ['RANK']), 4), '%r', comm)
        for turn, (kind, dtype, make) in enumerate(kinds()):
            for name in ('allreduce', 'reduce', 'reducescatter', 'broadcast', 'scatter', 'gather', 'allgather', 'alltoall'):
                for form in range(4):
                    operate(comm, name, make, dtype, (turn + form) % 4, form % 2, form // 2)
            comm.barrier()
            comm.ibarrier().wait()
        every_operation(comm)
        other_buffers(comm)
        check(comm.stats()['results_ok'] > 300 and set(comm.stats()) == {f for f, _ in _abi.Stats._fields_}, 'stats')
        check(comm.elements('int64') * 2 == comm.elements('fp32') == comm.elements('float32'), 'elements')
        before = comm.generation
        comm.rejoin()
        check(comm.generation == before + 1 and comm.allreduce(np.ones(1))[0] == 4, 'rejoin')


def every_operation(comm):
    rank = comm.rank
    for op, want in {'sum': 10, 'prod': 24, 'min': 1, 'max': 4, 'avg': 2, 'band': 0, 'bor': 7, 'bxor': 4, 'land': 1,
                     'lor': 1, 'lxor': 0}.items():
        for given in (op, weir.Op[op.upper()]):
            check(comm.allreduce(np.full(3, rank + 1), op=given)[2] == want, '%s', op)


def other_buffers(comm):
    """What is no numpy array, or none of this type."""
    for letter in 'bBhHiIlLqQfd':
        check(comm.allreduce(array.array(letter, [1, 2, 3])).tolist() == [4, 8, 12], '%s', letter)
    data = bytearray(8)
    data[:] = b'12345678'
    check(comm.broadcast(memoryview(data)[2:6], root=1).tobytes() == b'3456', 'memoryview')
    check(comm.allgather(b'ab', bytearray(8)) == bytearray(b'abababab'), 'bytes as send')
    check((comm.allreduce(np.ones((2, 3, 4), np.float32)) == 4).all(), 'more dimensions')
    check(comm.allreduce(np.array(2.0)) == 8 and len(comm.allreduce(np.array([]))) == 0, 'no dimension, no elements')
    check((comm.allreduce(np.full(3, 1 + 2j), dtype='fp64') == 4 + 8j).all(), 'complex numbers, as pairs')
    read_only = np.ones(4)
    read_only.flags.writeable = False
    check((comm.allreduce(read_only, np.zeros(4)) == 4).all(), 'a read-only send')

    class Tensor:  # as PyTorch's
        dtype, layout = 'torch.float32', 'torch.strided'

        def __init__(self, kind='cpu', contiguous=True):
            self.data = np.ones(6, np.float32)
            self.device = type('device', (), {'type': kind})()
            self.data_ptr, self.numel, self.element_size = lambda: self.data.ctypes.data, lambda: 6, lambda: 4
            self.is_contiguous = lambda: contiguous

    check((comm.allreduce(Tensor()).data == 4).all(), 'a tensor')
    raises(TypeError, 'send: a tensor on', comm.allreduce, Tensor('cuda'))
    raises(BufferError, 'send is not contiguous', comm.allreduce, Tensor(contiguous=False))

    class Foreign(np.ndarray):  # as an array of ml_dtypes, which exports no buffer
        dtype = 'bfloat16'

        def view(self, kind):
            return data.view(kind)

    data = np.full(4, 0x3f80, np.uint16)
    comm.allreduce(np.ndarray.view(data.view('M8[s]'), Foreign))
    check((data == 0x4080).all(), 'a type that is not of numpy: %s', data)
    with contextlib.suppress(ImportError):
        import ml_dtypes
        check((comm.allreduce(np.ones(4, ml_dtypes.bfloat16)) == 4).all(), 'ml_dtypes')
        check((comm.allreduce(np.ones(4, ml_dtypes.float8_e4m3fn)) == 4).all(), 'ml_dtypes')


# -- wrong arguments


def arguments():
    raises(TypeError, "no argument 'jobb'", weir.open, jobb='x')
    raises(TypeError, 'no argument', weir.open, key_bytes=3)
    raises(ValueError, 'size: it is needed with rank', weir.open, 'x', rank=0)
    raises(ValueError, 'rank: it is needed', weir.open, 1, '10.0.0.1')
    raises(ValueError, "job: 'x'; with the IPv4 address of a switch it is a number", weir.open, 'x', '10.0.0.1', 0)
    raises(weir.Error, '"10.0.0.1:8080" is none of http://HOST:PORT', weir.open, 'x', '10.0.0.1:8080', 0, 2)
    raises(ValueError, 'job: 1; with a control API it is a name', weir.open, 1)
    raises(ValueError, 'job: 300 is out of range', weir.open, 300, '10.0.0.1', 0)
    raises(ValueError, "partial: 'some'", weir.open, 'x', partial='some')
    raises(TypeError, 'not int', weir.open, 'x', token=7)
    check(raises(weir.Error, 'no job', weir.open, 'gone').errno == errno.ENOENT, 'errno')
    refused = raises(weir.Error, 'policy', weir.open, 'made', create=True, temporary=True, settings={'policy': 'none'})
    check(refused.errno == errno.EINVAL, '%r', refused)
    with weir.open() as comm:
        n, ones = comm.size, np.ones(4, np.float32)
        before = comm.stats()
        for function in (comm.allreduce, comm.iallreduce):
            raises(TypeError, 'send: list has no buffer', function, [1, 2])
            raises(TypeError, 'recv: NoneType|send: NoneType', function, None, None)
            raises(TypeError, 'no type for complex', function, np.ones(2, complex))
            raises(TypeError, r'no type for (bool|the format \?)', function, np.ones(2, bool))
            raises(TypeError, 'no type for', function, np.ones(2, '>f4'))
            raises(TypeError, 'cannot include', function, np.zeros(2, 'M8[s]'))
            raises(TypeError, 'send is fp32, and recv fp64', function, ones, np.ones(4))
            raises(ValueError, 'send has 4 elements and recv 5', function, ones, np.ones(5, np.float32))
            raises(BufferError, 'send is not contiguous', function, np.ones((4, 4))[:, 1])
            raises(BufferError, 'recv is not contiguous', function, ones, np.ones(8, np.float32)[::2])
            raises(BufferError, 'send is read-only', function, b'abc')
            raises(BufferError, 'recv is read-only', function, b'abc', b'abc')
            raises(ValueError, "op: 'add' is none of sum, prod", function, ones, op='add')
            raises(ValueError, "dtype: 'half' is none of int8", function, ones, dtype='half')
            raises(ValueError, 'op: None is none of sum, prod', function, ones, op=None)
            raises(TypeError, 'items of 4 bytes are not bf16', function, ones, dtype='bf16')
            raises(TypeError, 'items of 6 bytes are not fp32', function, np.zeros(2, 'V6'), dtype='fp32')
            raises(ValueError, '3 bytes are not a number of elements of 2', function, bytearray(3), dtype='bf16')
            raises(weir.Error, 'band', function, ones, op='band')
            raises(weir.Error, 'operation', function, ones, op=99)
        for root in (-1, n, 1000):
            raises(ValueError, r'root: %d is not in \[0, 2\)' % root, comm.broadcast, ones, root=root)
        raises(ValueError, 'send has 3 elements, which are not 2 slices', comm.reducescatter, np.ones(3))
        raises(ValueError, 'recv has 3 elements, which are not 2 slices', comm.allgather, np.ones(1), np.ones(3))
        raises(ValueError, 'send has 2 elements and recv 6, with 2 ranks', comm.allgather, np.ones(2), np.ones(6))
        raises(ValueError, 'send has 3 elements', comm.alltoall, np.ones(3))
        raises(weir.Error, 'overlap', comm.allreduce, ones[:3], ones[1:])
        raises(TypeError, 'recv: only the root' if comm.rank else 'send: the root scatters', comm.scatter, None, None)
        if comm.rank == 0:
            raises(TypeError, 'send: the root scatters', comm.scatter, None, ones)
        check(comm.stats() == before, 'refused, and something was sent')
        check((comm.allreduce(ones) == n).all(), 'afterwards')
    closed = raises(weir.Error, 'closed', comm.allreduce, ones)
    check(closed.errno == errno.ECANCELED and isinstance(closed, OSError) and 'closed' in repr(comm), '%r', closed)
    comm.close()


# -- partial results


def partial():
    with weir.open() as comm, weir.open(os.environ['TEST_SECOND'], raise_partial=False) as quiet:
        for each in (comm, quiet):
            if each.rank == 2:
                until = time.monotonic() + 300
                while not each.unexpected():
                    check(time.monotonic() < until, 'no partial result')
                    time.sleep(0.002)
            data, answer = np.full(3, each.rank + 1, np.int32), np.zeros(3, np.int32)
            if each is comm:
                found = raises(weir.Partial, r'rank\(s\) 2 came later', each.allreduce, data, answer)
                check(isinstance(found, weir.Error) and found.missing == (2,) and found.errno, '%r', found)
                result, degraded = found.result, found.degraded
                sent = pickle.loads(pickle.dumps(found))  # as multiprocessing sends it
                check(str(sent) == str(found) and (sent.missing, sent.degraded) == ((2,), degraded), '%r', sent)
            else:
                check(each.allreduce(data, answer) is answer, 'returned')
                result, degraded = each.last_result(), each.degraded()
            check((answer == 3).all() and degraded == [(0, 3, (0, 1))], '%s %s', answer, degraded)
            check(result == weir.Result(1, 1, 1, int(each.rank == 2), 2, (2,)), '%s', result)


# -- waiting


def interrupt():
    """SIGINT while it waits; the operation goes on."""
    with weir.open('interrupt', create=True, temporary=True) as comm:
        for blocking in (True, False):
            data, told = np.ones(1000), 'interrupted-%d' % blocking
            if comm.rank == 1:
                hear(told)
                comm.allreduce(data)
            else:
                request = None if blocking else comm.iallreduce(data)
                if request:
                    check(not request.test() and not request.done, 'the other rank has not begun')
                    raises(TimeoutError, 'job "interrupt", rank 0 of 2: allreduce is still in progress after 0.01 s', request.wait, 0.01)
                threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
                try:
                    comm.allreduce(data) if blocking else request.wait()
                    check(False, 'no KeyboardInterrupt')
                except KeyboardInterrupt:
                    tell(told)
                if request:
                    check(request.wait() is data, 'the result')
            comm.barrier()
            check((data == 2).all(), '%s', data)


def dropped():
    with weir.open('dropped', create=True, temporary=True) as comm:
        data, fixed = np.ones(1000), bytearray(4)
        kept = weakref.ref(data)
        if comm.rank == 1:
            hear('dropped')
        requests = [comm.iallreduce(data), comm.iallreduce(fixed)]
        del data
        if comm.rank == 0:
            raises(BufferError, '', fixed.append, 1)
            del requests
            gc.collect()
            check(kept() is not None, 'freed, and C uses it')
            tell('dropped')
        for _ in range(2):
            comm.barrier()
        if comm.rank == 0:
            check(kept() is None, 'not freed')
            fixed.append(1)


def threads():
    """While one thread waits others run; several may wait for one request."""
    weir.communicator.WAIT_MS = 60000  # in one call of C
    with weir.open('threads', create=True, temporary=True) as comm:
        data, found = np.ones(10), []
        if comm.rank == 1:
            hear('counted')
            comm.allreduce(data)
            return
        request = comm.iallreduce(data)
        waiting = [threading.Thread(target=lambda: found.append(request.wait() is data)) for _ in range(3)]
        for thread in waiting:
            thread.start()

        def count():
            for _ in range(100000):
                pass
            tell('counted')
        threading.Thread(target=count).start()
        check(request.wait() is data, 'the result')
        for thread in waiting:
            thread.join()
        check(found == [True] * 3 and (data == 2).all(), '%s', found)


def closing():
    """close() while another thread, or this one, waits."""
    for by_signal in (False, True):
        comm = weir.open('closing-%d' % by_signal, create=True, temporary=True)
        data, found = np.ones(10), []
        if comm.rank == 1:
            hear('closed-%d' % by_signal)
        elif by_signal:
            signal.signal(signal.SIGALRM, lambda *_: comm.close())
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            found.append(raises(weir.Error, 'closed', comm.allreduce, data))
        else:
            thread = threading.Thread(target=lambda: found.append(raises(weir.Error, 'closed', comm.allreduce, data)))
            thread.start()
            while not comm._handle.inside:
                time.sleep(0.001)
            comm.close()
            thread.join()
        check(comm.rank == 1 or found[0].errno == errno.ECANCELED, '%s', found)
        tell('closed-%d' % by_signal)
        comm.close()


def ending():
    """fork(), and the end of the program with everything open."""
    comm = weir.open('ending', create=True, temporary=True)
    data = np.ones(10)
    if comm.rank == 1:
        hear('forked')
    request = comm.iallreduce(np.ones(10))
    if comm.rank == 0:  # a thread waits for it, which the child has not
        threading.Thread(target=request.wait).start()
        while not comm._handle.inside:
            time.sleep(0.001)
    child = os.fork()
    if child == 0:
        for function in (lambda: comm.allreduce(data), request.wait, comm.barrier, comm.rejoin):
            check(raises(weir.Error, 'fork', function).errno == errno.EINVAL, 'errno')
        check(request.test(), 'a request of the parent')
        comm.close()
        sys.exit(0)
    check(os.waitpid(child, 0)[1] == 0, 'the child')
    tell('forked')
    check((request.wait() == 2).all() and (comm.allreduce(data) == 2).all(), 'after fork')
    if comm.rank == 0:
        def wait():
            with contextlib.suppress(weir.Error):
                comm.allreduce(data)

        threading.Thread(target=wait, daemon=True).start()
        while not comm._handle.inside:
            time.sleep(0.001)
        tell('ended')
    else:
        hear('ended')
        comm.iallreduce(data)
    # Nothing is closed, and nothing has to wait.


def warned():
    """What waits for long says so, to a function of the program."""
    said = []
    if os.environ['RANK'] == '1':
        hear('warned')
    else:
        def warn(text):
            said.append(text)
            tell('warned')
    with weir.open('warned', create=True, temporary=True, warn=None if os.environ['RANK'] == '1' else warn) as comm:
        check(comm.rank == 1 or 'rank 1' in said[0], '%s', said)


if __name__ == '__main__':
    globals()[sys.argv[1]]()
