# SPDX-License-Identifier: BSD-3-Clause
"""What calls raise, and how an operation ended."""
import errno
from typing import Any, List, NamedTuple, Tuple


class Result(NamedTuple):
    """How the operation ended that was waited for last: struct weir_result."""
    blocks: int  # of the operation
    completed: int  # blocks that have a result, degraded ones included
    degraded: int  # results that lack a rank, even if no data is missing
    without_own: int  # of these: results that lack this rank's contribution
    sources_least: int  # ranks in the result that has the fewest
    missing: Tuple[int, ...]  # ranks that at least one result lacks


class Degraded(NamedTuple):
    """A block whose result lacks ranks: elements [first, first + count) of recv, or, if recv is made of slices, of each
    slice (in an alltoall of small blocks, of recv)."""
    first: int
    count: int  # type: ignore[assignment] # a tuple has a method of this name
    present: Tuple[int, ...]  # the ranks that are in it


class Error(OSError):
    """A call failed. `errno` is the code, `strerror` libweir's text; weir.h says which codes a call has. But for EINVAL,
    EBUSY and EMSGSIZE all later operations of this communicator fail, too, until rejoin() on every rank."""


class Partial(Error):
    """The operation completed, but some ranks are missing in at least one block of its result, which is in recv. The
    communicator stays usable. Raised if the job's policy is `partial`, unless opened with raise_partial=False.

    If the job's sources are not numbered from 0, the ranks below are the sources' ids. Of threads that share a
    communicator, `result` and `degraded` may be those of another thread's operation.
    """

    def __init__(self, text: str, result: Result, degraded: List[Degraded]):
        super().__init__(errno.EIO, text)
        self.result = result
        self.degraded = degraded

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.strerror, self.result, self.degraded)  # for copies, and for pickle

    @property
    def missing(self) -> Tuple[int, ...]:
        """The ranks that at least one block lacks."""
        return self.result.missing
