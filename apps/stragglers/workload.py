# SPDX-License-Identifier: BSD-3-Clause
"""What weir-train computes: random numbers and slow hosts, tensors whose sums are known, and a small model that learns.

Everything random is a function of the seed. Indexes may be numbers or arrays of numpy's uint64.
"""
import functools
import hashlib

import numpy as np

GOLDEN, ALL_BITS = 0x9e3779b97f4a7c15, (1 << 64) - 1


def mix(z):
    """The output function of splitmix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & ALL_BITS
    z = (z ^ z >> 27) * 0x94d049bb133111eb & ALL_BITS
    return z ^ z >> 31


def stream(seed, number):
    """Start of a stream of random numbers; streams with different numbers are independent."""
    return mix(mix(seed + GOLDEN & ALL_BITS) + number * GOLDEN & ALL_BITS)


def uniform(start, index):
    """Numbers of a stream: uniform in [0, 1), 53 bits."""
    return (mix(start + index * GOLDEN & ALL_BITS) >> 11) * 2.0 ** -53


def indexes(count, factor=1):
    return np.arange(count, dtype=np.uint64) * np.uint64(factor)


# -- slow hosts

POINTS = BEFORE_FORWARD, BEFORE_BACKWARD, BEFORE_ALLREDUCE = range(3)


def slow(options, rank, iteration):
    """The Slow Worker Pattern: with probability slow_ppm a host stands still in an iteration, at one of POINTS, for
    slow_min to slow_max units. Returns (us, point); 0 us: not slow. All policies meet the same delays; a host that
    is slow at some probability is slow at each higher one, for as long and at the same point."""
    start = mix(mix(mix(options.seed + GOLDEN & ALL_BITS) + rank * GOLDEN + 1 & ALL_BITS) +
                iteration * GOLDEN & ALL_BITS)
    if uniform(start, 0) * 1e6 >= options.slow_ppm:
        return 0, BEFORE_FORWARD
    times = options.slow_min + (options.slow_max - options.slow_min) * uniform(start, 1)
    return int(times * (options.slow_unit_us or options.compute_us)), int(len(POINTS) * uniform(start, 2))


# -- tensors

# The largest sum, of 256 ranks, is below 2^24: fp32 has all integers up to there, so sums are exact in any order.
OWN_BITS, COMMON_BITS = 15, 10


def read_shapes(path):
    """The elements of each tensor of a file with lines `name dimension...`."""
    with open(path) as file:
        lines = [line.split('#')[0].split() for line in file]
    return [int(np.prod([int(n) for n in words[1:]], dtype=np.int64)) for words in lines if words]


def make_buckets(counts, scale=1, bucket=0):
    """The gradients of a model as they lie in memory: the last tensor first, because backward propagation finishes it
    first, in buckets of whole tensors, each one AllReduce, as in PyTorch's DistributedDataParallel and Horovod. Each
    tensor has `scale` times fewer elements, at least 1. A bucket is closed when the next tensor would make it larger
    than `bucket` elements (0: never). Returns where buckets begin, and the end."""
    first, end = [0], 0
    for count in reversed(counts):
        count = max((count + scale // 2) // scale, 1)
        if bucket and end != first[-1] and end - first[-1] + count > bucket:
            first.append(end)
        end += count
    return first + [end]


def blocks_of(first, per_block):
    return sum(-(-(end - begin) // per_block) for begin, end in zip(first, first[1:]))


def own(seed, rank, iteration):
    """A rank's part of all its elements; never 0."""
    return int(uniform(stream(seed, 0), iteration << 8 | rank) * (1 << OWN_BITS)) | 1


@functools.lru_cache
def multiples(first, count):
    return np.arange(first, first + count, dtype=np.uint32) * np.uint32(2654435769)


def common(iteration, first, count):
    """The elements' part, by Fibonacci hashing: neighbours, blocks and iterations differ."""
    return (multiples(first, count) + np.uint32(iteration * 2246822519 & 0xffffffff)) >> np.uint32(32 - COMMON_BITS)


def fill(seed, rank, iteration, count):
    """The elements of a rank; each subset of ranks, iteration and element has a sum of its own."""
    return (np.uint32(own(seed, rank, iteration)) + common(iteration, 0, count)).astype(np.float32)


def wrong(seed, ranks, iteration, first, got, missing=()):
    """How many of the elements from `first` on at `got` are not the sum of all ranks or, in the blocks (first, count,
    ranks present) of `missing`, of those."""
    owns = [own(seed, r, iteration) for r in range(ranks)]
    total = np.full(len(got), sum(owns), dtype=np.uint32)
    inside = np.full(len(got), ranks, dtype=np.uint32)
    for begin, count, present in missing:
        total[begin:begin + count] = sum(owns[r] for r in present)
        inside[begin:begin + count] = len(present)
    right = (total + inside * common(iteration, first, len(got))).astype(np.float32)
    return int(np.count_nonzero(got != right))


# -- the model: points of the plane on the arms of a spiral, with noise; no line separates the classes

INPUTS, CLASSES = 2, 4
POINTS_ALL, POINTS_TEST = 6000, 1000  # to train with, of all hosts together; held out
NOISE = 0.10  # standard deviation across an arm; arms are about 0.6 apart
ARM_TURNS, ARM_RADIUS = 0.8, 2.0
UNITS = (INPUTS, 32, 32, CLASSES)  # of each layer, the input's first
SHAPES = [(outputs, inputs + 1) for inputs, outputs in zip(UNITS, UNITS[1:])]  # the bias is the last
ENDS = np.cumsum([o * i for o, i in SHAPES])
WEIGHTS = int(ENDS[-1])
STREAM_TRAIN, STREAM_TEST, STREAM_WEIGHTS, STREAM_ORDER = range(1, 5)


def normal(start, index):
    """Normal with mean 0 and variance 1, of Box and Muller; takes two numbers."""
    return np.sqrt(-2 * np.log(1 - uniform(start, index))) * np.cos(2 * np.pi * uniform(start, index + np.uint64(1)))


def make_set(start, count):
    """Points and their labels. Classes are drawn, not dealt out in turn: the share of every host has all of them."""
    at = indexes(count, 6)
    # The arms begin a little off the centre, where they would meet.
    label, along = (CLASSES * uniform(start, at + np.uint64(1))).astype(int), 0.15 + 0.85 * uniform(start, at)
    angle = 2 * np.pi * (label / CLASSES + ARM_TURNS * along)
    x = np.stack([ARM_RADIUS * along * turned + NOISE * normal(start, at + np.uint64(2 + 2 * axis))
                  for axis, turned in enumerate((np.cos(angle), np.sin(angle)))], axis=1)
    return x.astype(np.float32), label


class Share:
    """A host's share of the set: every ranks-th point, in an order that is shuffled for each epoch."""

    def __init__(self, seed, points, rank, ranks):
        self.stream, self.rank, self.next, self.epoch = stream(seed, STREAM_ORDER), rank, 0, 0
        self.order = list(range(rank, points, ranks))
        self.shuffle()

    def shuffle(self):
        """Fisher and Yates."""
        begin = (self.rank << 24 | self.epoch) << 32
        drawn = uniform(self.stream, indexes(len(self.order)) + np.uint64(begin))
        for i in range(len(self.order) - 1, 0, -1):
            j = int(drawn[i] * (i + 1))
            self.order[i], self.order[j] = self.order[j], self.order[i]

    def batch(self, count):
        """The next points. The rest of an epoch that is too short is left out."""
        if len(self.order) - self.next < count:
            self.epoch, self.next = self.epoch + 1, 0
            self.shuffle()
        self.next += count
        return self.order[self.next - count:self.next]


class Model:
    """A multilayer perceptron, tanh in the hidden layers, softmax and cross entropy at the end; stochastic gradient
    descent with momentum. Weights are fp32 and everything computed from them fp64, so that the gradient can be checked
    by finite differences.

    What hosts add up is the gradient in blocks as the switch takes them, `block` elements each, [2, ...), the last one
    shorter. The last element of each counts the gradients that the block is the sum of: a host that has computed one
    adds 1, a host that has not adds 0. So the step of each block is a mean, whichever hosts are missing from it."""

    def __init__(self, seed, block):
        drawn = 2 * uniform(stream(seed, STREAM_WEIGHTS), indexes(WEIGHTS)) - 1
        self.weights, self.velocity = np.zeros(WEIGHTS, np.float32), np.zeros(WEIGHTS, np.float32)
        # Glorot's: uniform within sqrt(6 / (inputs + outputs)) around 0; biases 0.
        for layer, numbers in zip(self.layers(self.weights), self.layers(drawn)):
            layer[:, :-1] = np.sqrt(6 / (layer.shape[0] + layer.shape[1] - 1)) * numbers[:, :-1]
        weight = np.arange(WEIGHTS)
        self.elements = WEIGHTS - (-WEIGHTS // (block - 1))
        self.place = weight + weight // (block - 1)  # of each weight among the elements
        self.count = np.minimum((weight // (block - 1) + 1) * block, self.elements) - 1  # of its block

    @staticmethod
    def layers(flat):
        return [part.reshape(shape) for part, shape in zip(np.split(flat, ENDS[:-1]), SHAPES)]

    def forward(self, x):
        """What the units give for points: the points themselves first, the classes' probabilities last."""
        outputs = [x.astype(np.float64)]
        for number, layer in enumerate(self.layers(self.weights.astype(np.float64)), 1):
            sums = outputs[-1] @ layer[:, :-1].T + layer[:, -1]
            outputs.append(np.tanh(sums) if number < len(SHAPES) else sums)
        raised = np.exp(outputs[-1] - outputs[-1].max(axis=1, keepdims=True))
        outputs[-1] = raised / raised.sum(axis=1, keepdims=True)
        return outputs

    @staticmethod
    def loss(probabilities, label):
        """Mean cross entropy; not infinite where a probability has underflowed."""
        return float(-np.log(np.maximum(probabilities[np.arange(len(label)), label], 1e-300)).mean())

    def gradient(self, x, label):
        """(gradient of the mean loss over these points, loss)"""
        outputs = self.forward(x)
        # The loss's derivative by what enters a layer's units; at the end it is probability minus truth.
        delta, parts = outputs[-1] - np.eye(CLASSES)[label], []
        for layer, entered in zip(reversed(self.layers(self.weights.astype(np.float64))), reversed(outputs[:-1])):
            parts.insert(0, np.column_stack([delta.T @ entered, delta.sum(axis=0)]).ravel())
            delta = delta @ layer[:, :-1] * (1 - entered ** 2)
        return (np.concatenate(parts) / len(label)).astype(np.float32), self.loss(outputs[-1], label)

    def pack(self, gradient):
        packed = np.ones(self.elements, np.float32)
        packed[self.place] = gradient
        return packed

    def step(self, total, rate, momentum):
        """velocity = momentum x velocity + mean, weights -= rate x velocity. total: packed. A block without any
        gradient changes nothing."""
        counts = total[self.count]
        some = counts > 0
        self.velocity[some] = np.float32(momentum) * self.velocity[some] + total[self.place[some]] / counts[some]
        self.weights[some] -= np.float32(rate) * self.velocity[some]

    def evaluate(self, x, label):
        """(share of the points that the model gets right, mean loss)"""
        found = self.forward(x)[-1]
        return float((found.argmax(axis=1) == label).mean()), self.loss(found, label)

    def checksum(self):
        """Of the weights and the velocity: 8 bytes, equal if every bit is."""
        return hashlib.sha256(self.weights.tobytes() + self.velocity.tobytes()).digest()[:8]
