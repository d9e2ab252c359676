#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks of a PyTorch job that train.py starts, one in each network namespace of a plan:

    ranks.py PLAN

PyTorch is loaded and the data are made once; then the ranks of each run are forked. A run ends with the line `ended N` and a
report of each rank, FOLDER/N-RANK.json. The exit status is 0 if every rank's was.
"""
import ctypes
import gc
import hashlib
import json
import os
import signal
import statistics
import sys
import time
import traceback
from datetime import timedelta
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'stragglers'))

import weir.torch  # noqa: E402 (the path comes first)
from workload import POINTS, slow  # noqa: E402

PORT = 29500
CLONE_NEWNET, PR_SET_PDEATHSIG = 0x40000000, 1
SIDE, PATTERN, CLASSES, NOISE = 12, 5, 10, 0.3  # pixels, pixels, standard deviation of a pixel; a pattern's is 1
TESTS, WARMUP = 500, 3  # images; steps before the clock starts
GRID = 2.0 ** 20  # gradients are multiples of 1 / GRID
SHARES = (1 / 3, 2 / 3, 0)  # of the accelerator's time, behind each of POINTS
SLICE = 1e-3  # seconds between two looks whether a step is over


# -- what is learned

def make_images(seed, count):
    """(count x 1 x SIDE x SIDE, labels): the pattern of a class somewhere in noise."""
    drawn = torch.Generator().manual_seed(seed)
    patterns = torch.randn(CLASSES, PATTERN, PATTERN, generator=torch.Generator().manual_seed(7))
    images = NOISE * torch.randn(count, 1, SIDE, SIDE, generator=drawn)
    labels = torch.randint(CLASSES, (count,), generator=drawn)
    corners = torch.randint(SIDE - PATTERN + 1, (count, 2), generator=drawn)
    for image, label, (row, column) in zip(images, labels, corners.tolist()):
        image[0, row:row + PATTERN, column:column + PATTERN] += patterns[label]
    return images, labels


def make_model(seed, exact):
    """A convolutional network with 105482 parameters. exact: gradients are within [-1, 1] and on a grid, so a sum of four has 23
    bits: fp32 holds it, whatever the order of the additions."""
    torch.manual_seed(seed)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 16, 5, padding=2), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(32 * (SIDE // 4) ** 2, 320), torch.nn.ReLU(), torch.nn.Linear(320, CLASSES))
    for parameter in model.parameters() if exact else ():
        parameter.register_hook(lambda gradient: (gradient.clamp(-1, 1) * GRID).round() / GRID)
    return model


def evaluate(model, snapshot, images, labels):
    """{'accuracy', 'loss'} of held-out images."""
    torch.nn.utils.vector_to_parameters(snapshot, model.parameters())
    with torch.no_grad():
        found = model(images)
        return {'accuracy': (found.argmax(1) == labels).float().mean().item(), 'loss': cross_entropy(found, labels).item()}


# -- a rank

class Run:
    """A run of this rank. plan: train.py's; unit_us: the time of an undisturbed step."""

    def __init__(self, plan, way, chance, unit_us):
        dist.init_process_group('weir' if way == 'wait' else 'gloo', timeout=timedelta(seconds=60))
        self.plan, self.rank, self.ranks = plan, dist.get_rank(), dist.get_world_size()
        self.pattern = SimpleNamespace(seed=plan.seed, slow_ppm=round(chance * 1e6), slow_min=0.5, slow_max=2,
                                       slow_unit_us=unit_us, compute_us=0)
        self.model = make_model(plan.seed, plan.exact)
        self.data_parallel = DistributedDataParallel(self.model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), plan.rate, momentum=0.9)
        self.comm, self.partial = None, way == 'partial'
        if way == 'wait':
            self.comm = dist.distributed_c10d._get_default_group()._comm
        elif way == 'partial':
            hook = weir.torch.hook(error_feedback=True)
            self.data_parallel.register_comm_hook(*hook)
            self.comm = hook[0].comm
        if way != 'gloo':
            self.blocks = -(-sum(p.numel() for p in self.model.parameters()) // self.comm.elements('fp32'))
        self.losses, self.ends, self.snapshots = [], [], {}

    def is_over(self):
        """Whether the others have finished this step without this rank."""
        return self.partial and self.comm.unexpected() >= self.blocks

    def accelerate(self, step):
        """Sleep as if an accelerator computed, and as long as this host is slow. Returns whether it is worth finishing the step:
        a rank whose step is over leaves it, and begins the next one together with the others."""
        slow_us, point = slow(self.pattern, self.rank, step) if step >= 0 else (0, None)
        needed = True
        for at, share in zip(POINTS, SHARES):
            if at == point:
                time.sleep(slow_us / 1e6)
            end = time.monotonic() + share * self.plan.compute_ms / 1e3
            while needed and share and time.monotonic() < end:
                needed = not self.is_over()
                time.sleep(max(0, min(SLICE if self.partial else 60, end - time.monotonic())))
        return needed

    def step(self, step, images, labels):
        """One step of training. Returns this rank's loss, or None if it had to leave."""
        first = ((step + WARMUP) * self.ranks + self.rank) * self.plan.batch
        images, labels = images[first:first + self.plan.batch], labels[first:first + self.plan.batch]
        needed = self.accelerate(step)
        self.optimizer.zero_grad()
        if needed:
            loss = cross_entropy(self.data_parallel(images), labels)
        else:
            loss = 0 * self.data_parallel(images[:1]).sum()
        loss.backward()
        self.optimizer.step()
        return loss.item() if needed else None

    def train(self, data, tests):
        for step in range(-WARMUP, self.plan.steps):
            if step == 0:
                dist.barrier()
                began = time.monotonic()
            loss = self.step(step, *data)
            if step >= 0:
                self.losses.append(loss)
                self.ends.append(time.monotonic() - began)
                if (step + 1) % self.plan.every == 0:
                    self.snapshots[step] = torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()
        weights = torch.nn.utils.parameters_to_vector(self.model.parameters()).detach()
        # A rank that left now would end the job of those that are late.
        dist.barrier()
        # The clock has stopped. The ranks share the work.
        marks = {step: evaluate(self.model, snapshot, *tests) for number, (step, snapshot) in enumerate(self.snapshots.items())
                 if number % self.ranks == self.rank}
        return {'losses': self.losses, 'ends': self.ends, 'marks': marks, 'given_up': self.losses.count(None),
                'stats': self.comm.stats() if self.comm else {}, 'parameters': len(weights),
                'checksum': hashlib.sha256(weights.numpy().tobytes()).hexdigest()}


def settings(plan, way, unit_us):
    """Of the job; its window has all blocks of a step."""
    return 'window=128 ' + ('deterministic=true' if way == 'wait' else 'policy=partial timeout_ms=%d' % max(
        1, plan.timeout * unit_us / 1e3))


def be_rank(plan, number, rank, unit_us, data, tests):
    """Of a forked process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with open('/run/netns/' + plan.namespaces[rank]) as there:
        if ctypes.CDLL(None).setns(there.fileno(), CLONE_NEWNET) != 0:
            raise OSError('setns: ' + plan.namespaces[rank])
    way, chance = plan.runs[number]
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(len(plan.namespaces)), MASTER_ADDR=plan.master, MASTER_PORT=str(PORT + number),
                      GLOO_SOCKET_IFNAME='eth0', USE_LIBUV='0', WEIR_SETTINGS=settings(plan, way, unit_us))
    run = Run(plan, way, chance, unit_us)
    with open(os.path.join(plan.folder, '%d-%d.json' % (number, rank)), 'w') as file:
        json.dump(run.train(data, tests), file)
    dist.barrier()
    dist.destroy_process_group()


def fork_ranks(plan, number, *more):
    """Run all ranks to their end; the first that fails ends the others."""
    pids = set()
    for rank in range(len(plan.namespaces)):
        pid = os.fork()
        if pid == 0:
            try:
                be_rank(plan, number, rank, *more)
                sys.exit(0)
            except Exception:
                print('rank %d: %s' % (rank, traceback.format_exc()), flush=True)
                os._exit(1)  # whatever its threads still do
        pids.add(pid)
    while pids:
        pid, status = os.wait()
        pids.remove(pid)
        if status != 0:
            for other in pids:
                os.kill(other, signal.SIGKILL)
            sys.exit('run %d: a rank failed' % number)


def main():
    with open(sys.argv[1]) as file:
        plan = SimpleNamespace(**json.load(file))
    torch.set_num_threads(1)
    data = make_images(plan.seed << 1, (WARMUP + plan.steps) * len(plan.namespaces) * plan.batch)
    tests = make_images(plan.seed << 1 | 1, TESTS)
    gc.freeze()  # at their end ranks leave alone what was loaded here
    unit_us = 0
    for number in range(len(plan.runs)):
        fork_ranks(plan, number, unit_us, data, tests)
        if number == 0:
            with open(os.path.join(plan.folder, '0-0.json')) as file:
                ends = json.load(file)['ends']
            unit_us = round(1e6 * statistics.median(b - a for a, b in zip(ends, ends[1:])))
        print('ended %d' % number, flush=True)


if __name__ == '__main__':
    main()
