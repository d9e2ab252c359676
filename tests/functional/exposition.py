# SPDX-License-Identifier: BSD-3-Clause
"""Prometheus' text format 0.0.4, read strictly: what it allows and Weir does not need is refused."""
import re

from tap import check

NAME = r'[a-zA-Z_:][a-zA-Z0-9_:]*'
SAMPLE = re.compile(r'(%s)(?:\{(.*)\})? (\S+)' % NAME)
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')


class Family:
    def __init__(self, name, help_):
        self.name, self.help, self.type = name, help_, None
        self.samples = {}  # (suffix, ((label, value), ...) sorted) → number

    def value(self, suffix='', **labels):
        return self.samples[suffix, tuple(sorted(labels.items()))]

    def labels(self):
        """The names of labels, without a histogram's own."""
        return {name for _, labels in self.samples for name, _ in labels} - {'le'}


def read_labels(text):
    labels, at = {}, 0
    while text is not None and at < len(text):
        found = LABEL.match(text, at)
        check(found is not None, 'labels: %s', text)
        check(found.group(1) not in labels, 'a label twice: %s', text)
        labels[found.group(1)] = re.sub(
            r'\\(.)', lambda c: '\n' if c.group(1) == 'n' else c.group(1), found.group(2))
        at = found.end()
        if at < len(text):
            check(text[at] == ',', 'labels: %s', text)
            at += 1
    return tuple(sorted(labels.items()))


def check_histogram(family):
    """Buckets rise, and end with the count."""
    by_labels = {}
    for (suffix, labels), number in family.samples.items():
        rest = tuple(pair for pair in labels if pair[0] != 'le')
        if suffix == '_bucket':
            by_labels.setdefault(rest, []).append((float(dict(labels)['le']), number))
        else:
            check(suffix in ('_sum', '_count'), '%s%s', family.name, suffix)
    for labels, buckets in by_labels.items():
        bounds = [bound for bound, _ in buckets]
        check(bounds == sorted(set(bounds)) and bounds[-1] == float('inf'), '%s', bounds)
        counts = [number for _, number in buckets]
        check(counts == sorted(counts), '%s: %s', family.name, counts)
        check(counts[-1] == family.value('_count', **dict(labels)), '%s', family.name)
        check(('_sum', labels) in family.samples, '%s: no sum', family.name)


def parse(text):
    """name → Family; raises for whatever is not as it should be."""
    families, current = {}, None
    check(text.endswith('\n'), 'the last line has no end')
    for line in text[:-1].split('\n'):
        if line.startswith('# HELP '):
            name, help_ = line[7:].split(' ', 1)
            check(name not in families, '%s twice', name)
            check('\\' not in help_ and help_.strip() == help_ != '', 'help: %s', line)
            current = families[name] = Family(name, help_)
        elif line.startswith('# TYPE '):
            name, current.type = line[7:].split(' ')
            check(name == current.name and not current.samples, 'type: %s', line)
            check(current.type in ('counter', 'gauge', 'histogram'), 'type: %s', line)
        else:
            found = SAMPLE.fullmatch(line)
            check(found is not None, 'neither sample nor comment: %s', line)
            suffix = found.group(1)[len(current.name):]
            check(found.group(1).startswith(current.name) and current.type is not None,
                  'out of its family: %s', line)
            check(suffix == '' or current.type == 'histogram', 'suffix: %s', line)
            key = suffix, read_labels(found.group(2))
            check(key not in current.samples, 'twice: %s', line)
            current.samples[key] = float(found.group(3))
            check(current.samples[key] >= 0, 'negative: %s', line)
    for family in families.values():
        check((family.type == 'counter') == family.name.endswith('_total'), '%s: %s',
              family.name, family.type)
        if family.type == 'histogram':
            check_histogram(family)
    return families
