#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Data-parallel training through a Weir switch while hosts are slow; one process per host.

In each iteration a host computes (it sleeps, in place of an accelerator), adds its gradients to those of the others by
AllReduce, and uses the sum. It trains a small model that learns, until a target accuracy, or, with --shapes or --elements,
sums tensors of a large model's shape and checks each element. Exit status: 0 every sum is right, the target is reached
and all hosts have the same weights; 1 an error; 2 usage; 3 the target was not reached.
"""
import argparse
import json
import os
import sys
import time

os.environ.setdefault('OPENBLAS_NUM_THREADS', '1')  # hosts share the CPUs

import numpy as np  # noqa: E402 (the variable comes first)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'python'))

import weir  # noqa: E402
import workload  # noqa: E402

LAYERS = 25  # of a pass: so often a host checks whether it is too late
COMPARISONS = 1000  # of weights: each fails while some host is late
RIGHT, FAILED, USAGE, MISSED = range(4)  # exit statuses


class Failed(Exception):
    """Says why the run ended early."""


def sleep_until(when):
    time.sleep(max(0, when - time.monotonic()))


class Run:
    """The state of one host's run; `found` becomes the report."""

    def __init__(self, options, comm):
        self.options, self.comm, self.rank, self.block = options, comm, options.source, comm.elements('fp32')
        self.blocks_in = 0  # contributions in all results, of any source
        self.results, self.wrong, self.each, self.marks, self.seconds = 0, 0, [], [], 0
        self.model, self.reached, self.diverged = None, False, False
        if self.rank >= comm.size:
            raise Failed('the job has %d sources; weir-train needs them numbered from 0' % comm.size)
        if options.shapes or options.elements:
            counts = workload.read_shapes(options.shapes) if options.shapes else [options.elements]
            self.tensors, self.first = len(counts), workload.make_buckets(counts, options.scale, options.bucket)
        else:
            self.prepare_model()
        self.blocks = workload.blocks_of(self.first, self.block)
        self.send, self.recv = np.zeros((2, self.first[-1]), np.float32)

    def prepare_model(self):
        options, ranks = self.options, self.comm.size
        if self.block < 2:
            raise Failed("the job's blocks have one element, and two are needed")
        if options.batch > workload.POINTS_ALL // ranks:
            raise Failed('--batch: a host has %d points, not %d' % (workload.POINTS_ALL // ranks, options.batch))
        self.train = workload.make_set(workload.stream(options.seed, workload.STREAM_TRAIN), workload.POINTS_ALL)
        self.test = workload.make_set(workload.stream(options.seed, workload.STREAM_TEST), workload.POINTS_TEST)
        self.share = workload.Share(options.seed, workload.POINTS_ALL, self.rank, ranks)
        self.model = workload.Model(options.seed, self.block)
        self.first = [0, self.model.elements]

    def is_over(self):
        """Whether the others have finished this iteration without this host: all sums of it are here."""
        return self.comm.unexpected() >= self.blocks

    def make_gradients(self, number):
        if self.model is None:
            self.send[:] = workload.fill(self.options.seed, self.rank, number, len(self.send))
        else:
            points = self.share.batch(self.options.batch)
            self.send[:] = self.model.pack(self.model.gradient(self.train[0][points], self.train[1][points])[0])

    def compute_pass(self, backward, number):
        """One pass over the model, layer by layer. The real work is part of the backward pass. False: stopped early,
        because the sums are there already."""
        begin, forward = time.monotonic(), self.options.compute_us // 3
        length = (self.options.compute_us - forward if backward else forward) / 1e6
        if backward:
            self.make_gradients(number)
        for layer in range(1, LAYERS + 1):
            sleep_until(begin + length * layer / LAYERS)
            if self.is_over():
                return False
        return True

    def compute(self, number, slow_us, point):
        """The compute phase. Returns whether it was given up: a host that is so late that its iteration ends without
        it stops computing, fetches the sums, and begins the next iteration together with the others. It stands still
        for as long as was drawn in any case, so the delays are the same with every policy. It must not contribute
        zeros early instead: that would begin the blocks, and let them time out before the others are there."""
        given_up = False
        for at in workload.POINTS:
            if slow_us and at == point:
                sleep_until(time.monotonic() + slow_us / 1e6)
            given_up = given_up or self.is_over()
            if not given_up and at != workload.BEFORE_ALLREDUCE:
                given_up = not self.compute_pass(at == workload.BEFORE_BACKWARD, number)
        if given_up:
            self.send[:] = 0
        return given_up

    def allreduce(self, number):
        """Sum all buckets and check tensors exactly. Returns (partial blocks, whether this host misses some)."""
        partial, missed = 0, False
        for first, end in zip(self.first, self.first[1:]):
            try:
                self.comm.allreduce(self.send[first:end], self.recv[first:end])
            except weir.Error as error:
                raise Failed('iteration %d: %s' % (number, error.strerror)) from None
            blocks = self.comm.degraded()
            self.results += -(-(end - first) // self.block)
            self.blocks_in -= sum(self.comm.size - len(present) for _, _, present in blocks)
            missed = missed or any(self.rank not in present for _, _, present in blocks)
            partial += len(blocks)
            if self.model is None:
                self.wrong += workload.wrong(self.options.seed, self.comm.size, number, first,
                                             self.recv[first:end], blocks)
        return partial, missed

    def evaluate(self, seconds):
        """Evaluate the model if it is time."""
        done, options = len(self.each) + 1, self.options
        if done % options.every and done < options.iterations:
            return
        accuracy, loss = self.model.evaluate(*self.test)
        self.marks.append({'iteration': done, 'seconds': seconds, 'accuracy': accuracy, 'loss': loss})
        self.reached = accuracy >= options.target
        if self.rank == 0:
            print('iteration %d, %.3f s: loss %.4f, accuracy %.2f %%' % (done, seconds, loss, 100 * accuracy),
                  flush=True)

    def iterate(self):
        options, began = self.options, time.monotonic()
        at = began
        for number in range(options.warmup + options.iterations):
            if self.reached:
                break
            # Nobody is slow during the warm-up: the hosts begin together.
            slow_us, point = (0, 0) if number < options.warmup else workload.slow(
                options, self.rank, number - options.warmup)
            given_up = self.compute(number, slow_us, point)
            partial, missed = self.allreduce(number)
            if number < options.warmup:
                self.results, self.blocks_in, began = 0, 0, time.monotonic()
                at = began
                continue
            if self.model is not None:
                self.model.step(self.recv, options.rate, options.momentum)
                self.evaluate(time.monotonic() - began)
            now = time.monotonic()
            self.each.append({'us': round((now - at) * 1e6), 'slow_us': slow_us, 'partial_blocks': partial,
                              'missed': missed, 'given_up': given_up})
            at, self.seconds = now, now - began

    def compare_replicas(self):
        """Compare the weights of all hosts by their checksums: each puts its own in its place of a sum."""
        own, everybody = np.zeros((2, self.comm.size, 2), np.int32)
        own[self.rank] = np.frombuffer(self.model.checksum(), np.int32)
        for _ in range(COMPARISONS):
            self.comm.allreduce(own, everybody)
            self.comm.error_feedback_forget(own)  # it is sent again, and must count once
            if not self.comm.last_result().degraded:
                break
        else:
            raise Failed("the weights can't be compared: a host is late each time")
        for rank in range(self.comm.size):
            if (everybody[rank] != own[self.rank]).any():
                self.diverged = True
                say(self.rank, 'rank %d has other weights' % rank)

    def report(self, error):
        """What the iterations add up to."""
        found = {'rank': self.rank, 'ranks': self.comm.size, 'seed': self.options.seed, 'seconds': self.seconds,
                 'iterations': len(self.each), 'each': self.each, 'stats': self.comm.stats(), 'error': error,
                 'partial_blocks': sum(i['partial_blocks'] for i in self.each),
                 'slow_us': sum(i['slow_us'] for i in self.each),
                 'sources_mean': self.comm.size + self.blocks_in / self.results if self.results else 0}
        for name, key in (('slowed', 'slow_us'), ('partial', 'partial_blocks'), ('missed', 'missed'),
                          ('given_up', 'given_up')):
            found[name] = sum(bool(i[key]) for i in self.each)
        if self.model is None:
            found.update(elements=self.first[-1], tensors=self.tensors, buckets=len(self.first) - 1,
                         blocks=self.blocks, wrong=self.wrong)
            end = '%d wrong' % self.wrong
        else:
            found.update(reached=self.reached, diverged=self.diverged, checksum=self.model.checksum().hex(),
                         marks=self.marks)
            end = 'target %sreached, weights %s' % ('' if self.reached else 'NOT ',
                                                    'DIFFER' if self.diverged else 'equal')
        print('weir-train: rank %(rank)d of %(ranks)d: %(iterations)d iterations in %(seconds).3f s; slow in '
              '%(slowed)d; partial %(partial)d, missed %(missed)d, given up %(given_up)d; %(sources_mean).2f sources '
              'in a result; ' % found + end, flush=True)
        return found


def say(rank, text):
    print('weir-train: rank %d: %s' % (rank, text), file=sys.stderr)


def train(options):
    """Returns the exit status."""
    run, error, found = None, None, {}
    os.environ['WEIR_LIBRARY'] = options.library
    try:
        run = Run(options, weir.open(
            options.job, options.switch, options.source, options.sources, address=options.address,
            op_timeout_ms=options.timeout, join_timeout_ms=options.join_timeout or options.timeout,
            partial=options.partial.replace('-', '_'), error_feedback=options.error_feedback, raise_partial=False))
        run.iterate()
        if run.model is not None:
            run.compare_replicas()
    except (Failed, weir.Error) as failure:
        error = getattr(failure, 'strerror', None) or str(failure)
        say(options.source, error)
    if run is not None:
        found = run.report(error)
        run.comm.close()
    if options.json:
        with open(options.json, 'w') as file:
            json.dump(found or {'error': error}, file)
    if error or run.wrong or run.diverged:
        return FAILED
    return RIGHT if run.model is None or run.reached else MISSED


def number(kind, least, most):
    """A type of options: a number from least to most."""
    def parse(text):
        value = kind(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError('%s: must be in %g..%g' % (text, least, most))
        return value

    parse.__name__ = kind.__name__
    return parse


def parse_options():
    build = os.environ.get('WEIR_BUILD', 'build')
    parser = argparse.ArgumentParser('weir-train', description=__doc__.split('\n\n', 1)[0],
                                     epilog=__doc__.split('\n\n', 1)[1])
    whole, share, many = number(int, 0, 1 << 30), number(float, 0, 1000), number(int, 1, 1 << 30)
    for name, kind, default, text in (
            ('switch', str, None, 'IPv4 address of the switch'),
            ('address', str, None, 'own IPv4 address, towards the switch'),
            ('job', number(int, 0, 255), 1, 'job of the switch'),
            ('source', number(int, 0, 255), None, 'this host, 0 to the sources less 1'),
            ('sources', number(int, 0, 256), 0, 'that the job must have; 0: as many as the switch says'),
            ('timeout', many, 30000, 'ms, of an operation without progress'),
            ('join-timeout', whole, 0, 'ms; 0: as --timeout'),
            ('library', str, os.path.join(build, 'apps', 'libweir', 'libweir.so'), 'libweir.so'),
            ('json', str, None, 'write a report into this file'),
            ('seed', int, 1, 'of data, weights, order and slow hosts; equal on all hosts'),
            ('iterations', many, 1000, 'that count; of the model at most'),
            ('warmup', whole, 0, 'iterations before them, in which nobody is slow'),
            ('compute-us', whole, 0, 'of an iteration, as if an accelerator worked'),
            ('slow-ppm', number(int, 0, 1000000), 0, 'in how many of a million iterations a host is slow'),
            ('slow-min', share, 0.5, 'units that it is slow, at least'),
            ('slow-max', share, 2, 'units that it is slow, at most; uniform'),
            ('slow-unit-us', whole, 0, 'a unit; 0: as --compute-us'),
            ('target', number(float, 0.01, 1), 0.95, 'train the model to this accuracy'),
            ('every', many, 10, 'evaluate the model every N iterations'),
            ('batch', number(int, 1, workload.POINTS_ALL), 64, 'points per host and iteration'),
            ('rate', share, 0.07, 'of learning'), ('momentum', number(float, 0, 1), 0.9, 'of the steps'),
            ('shapes', str, None, 'tensors of this file, lines `name dimension...\', in place of the model'),
            ('elements', many, 0, 'or one tensor of so many elements'),
            ('scale', many, 1, 'every tensor has so many times fewer elements'),
            ('bucket', whole, 0, 'elements of a bucket, about; 0: one for all')):
        parser.add_argument('--' + name, type=kind, default=default, help=text,
                            required=name in ('switch', 'address', 'source'))
    parser.add_argument('--partial', choices=['as-is', 'rescale', 'fail'], default='as-is',
                        help='partial results, as in weir-perf')
    parser.add_argument('--error-feedback', action='store_true',
                        help='add what missed its sum to the next contribution')
    options = parser.parse_args()
    if options.slow_max < options.slow_min:
        parser.error('--slow-max is less than --slow-min')
    if options.slow_ppm and not options.slow_unit_us and not options.compute_us:
        parser.error('--slow-ppm needs --compute-us or --slow-unit-us')
    return options


if __name__ == '__main__':
    sys.exit(train(parse_options()))
