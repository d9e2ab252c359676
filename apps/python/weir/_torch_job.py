# SPDX-License-Identifier: BSD-3-Clause
"""The job of a process group of torch: rank 0 names it, and all ranks join it or none does."""
import contextlib
import errno
import json
import os
import queue
import secrets
import threading
from datetime import timedelta
from typing import Any, Dict, Optional, Tuple, Union

import torch.distributed as dist

from .communicator import Communicator, open

JOIN_S, CONTACT_S, SILENCE_S = 30.0, 10.0, 20.0  # without all ranks; without an answer, before and after
RANKS = 256  # of a job, at most
# The switch cannot be reached or has no room, or a rank is missing: then gloo serves. Other errors are mistakes in the
# configuration.
UNAVAILABLE = {errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT, errno.ECONNABORTED, errno.ENOSPC,
               errno.EDQUOT, errno.EBUSY, errno.ENETDOWN, errno.EHOSTDOWN}
# What torch raises when communication fails.
Failure = getattr(dist, 'DistBackendError', RuntimeError)
_switch: Dict[str, str] = {}  # what the process that knew the switch has told


def invite(size: int, world: bool = False) -> Dict[str, str]:
    """What rank 0 tells the others: the job, or why there is none. exists: it is not to be created, as one over several
    switches; each rank joins it at its own switch, if it knows one. world: of the default group. require: gloo alone is an
    error."""
    global _switch
    require = os.environ.get('WEIR_REQUIRE', '') or _switch.get('require', '')
    if os.environ.get('WEIR_SWITCH'):
        _switch = {'switch': os.environ['WEIR_SWITCH'], 'settings': os.environ.get('WEIR_SETTINGS', ''),
                   'space': os.environ.get('WEIR_NAMESPACE', ''), 'require': require}
    if 'switch' not in _switch:
        return {'why': 'WEIR_SWITCH is not set at rank 0', 'require': require}
    if size > RANKS:
        return {**_switch, 'why': 'a job has %d ranks at most' % RANKS, 'require': require}
    if world and os.environ.get('WEIR_JOB'):
        return {**_switch, 'require': require, 'job': os.environ['WEIR_JOB'], 'exists': 'yes'}
    number = secrets.token_hex(6)
    return {**_switch, 'require': require, 'job': '%.18s.%s' % (_switch['space'], number) if _switch['space'] else 'torch-' + number}


def limits(timeout: float) -> Dict[str, int]:
    """The timeouts of weir.open(). An operation has that of torch."""
    seconds = {'join_timeout_ms': min(timeout, JOIN_S), 'contact_timeout_ms': min(timeout, CONTACT_S),
               'op_timeout_ms': timeout, 'silence_timeout_ms': min(timeout, SILENCE_S)}
    return {name: max(1, min(int(1000 * s), 2**32 - 1)) for name, s in seconds.items()}


def join(invitation: Dict[str, str], rank: int, size: int, **config: Any) -> Communicator:
    made: Dict[str, Any]
    if 'exists' in invitation:
        made = {'control': os.environ.get('WEIR_SWITCH') or invitation['switch'], **config}
    else:  # the later one of equal settings counts
        made = {'control': invitation['switch'], 'settings': 'alltoall=fit ' + invitation['settings'], 'create': True,
                'temporary': True, **config}
    return open(invitation['job'], rank=rank, size=size, **made)


def open_job(store: dist.Store, invitation: Dict[str, str], rank: int, size: int,
             timeout: float) -> Tuple[Optional[Communicator], str]:
    """Open a job on all ranks or on none: (communicator, '') or (None, why). Raises Failure on all ranks or on none."""
    _switch.update({key: invitation[key] for key in ('switch', 'settings', 'space', 'require') if key in invitation})
    if 'why' in invitation:
        comm, why, mistake = None, invitation['why'], False
    else:
        comm, why, mistake = _join_all(store, invitation, rank, size, timeout)
    if mistake or (why and invitation.get('require', '') not in ('', '0')):
        # The first rank to raise ends its gloo, which others may still be connecting to, and its store, which others may still read.
        with contextlib.suppress(RuntimeError):
            if store.add('told', 1) == size:
                store.set('all told', '')
            store.wait(['all told'], timedelta(seconds=CONTACT_S))
        raise Failure('weir: %s%s' % (why, '' if mistake else ' (WEIR_REQUIRE does not allow gloo alone)'))
    return comm, why


def _join_all(store: dist.Store, invitation: Dict[str, str], rank: int, size: int,
              timeout: float) -> Tuple[Optional[Communicator], str, bool]:
    """(communicator, '', False) or (None, why, whether it is a mistake in the configuration); all ranks get the same."""
    opened: 'queue.SimpleQueue[Union[Communicator, Exception]]' = queue.SimpleQueue()

    def begin() -> None:
        try:
            opened.put(join(invitation, rank, size, partial='fail', **limits(timeout)))
        except Exception as error:
            opened.put(error)
    threading.Thread(target=begin, daemon=True).start()
    outcome: Union[Communicator, Exception, None] = None
    while outcome is None:
        try:
            outcome = opened.get(timeout=0.1)
        except queue.Empty:
            if store.add('failed', 0):
                break  # what is opened later is dropped, and so closed
    if isinstance(outcome, Exception):
        if store.add('failed', 1) == 1:
            # ENOENT of a job that is created: the switch's socket. Over TCP, a file of this rank's settings.
            socket = 'exists' not in invitation and invitation['switch'].startswith(('unix:', '/'))
            away = getattr(outcome, 'errno', None) in UNAVAILABLE | ({errno.ENOENT} if socket else set())
            store.set('verdict', json.dumps(['rank %d: %s' % (rank, getattr(outcome, 'strerror', None) or outcome), not away]))
    elif outcome is not None and store.add('opened', 1) == size:
        store.set('verdict', json.dumps(['', False]))
    why, mistake = json.loads(store.get('verdict'))
    if why and isinstance(outcome, Communicator):
        outcome.close()
    return None if why else outcome, why, mistake  # type: ignore[return-value]
