#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The states and transitions of a block have one name each: in the code, in the lists of its headers, in
block.pml and, those of a leaf, in tree.pml. Prints TAP.

    test_names.py ROOT
"""
import glob
import os
import re
import sys

ROOT = sys.argv[1]
SWITCH, HOST = 'ppe/collective/**/*.[ch]', 'apps/libweir/*.c'
BLOCK, FLIGHT = 'ppe/collective/block/block_priv.h', 'apps/libweir/recovery.h'
# Of block.pml: what has no function of its own in the code.
OWN = {'pick', 'oldest', 'receive', 'tell', 'batch', 'accept', 'open_next', 'restart', 'take_join', 'deaf', 'fail', 'flush',
       'check_result', 'lost', 'lose_contribution', 'lose_acknowledgement', 'lose_join', 'lose_accepted', 'lose_result'}


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def read_model():
    return ''.join(read('tests/spin/' + name) for name in ('block.pml', 'switch.pml', 'join.pml', 'source.pml'))


def functions(pattern):
    """The functions of the files, name -> [body]."""
    found = {}
    for path in glob.glob(os.path.join(ROOT, pattern), recursive=True):
        text = re.sub(r'/\*.*?\*/', '', read(path), flags=re.S)
        for match in re.finditer(r'^(\w+)\([^;{}]*\)\n\{\n(.*?)^\}', text, re.M | re.S):
            found.setdefault(match.group(1), []).append(match.group(2))
    assert found, 'no functions in ' + pattern
    return found


def who(code, pattern):
    """The functions in which the pattern is found."""
    return {name for name, bodies in code.items() if any(re.search(pattern, b) for b in bodies)}


def listed(path, part=0):
    """[(from, to, transition)] of a list in a header's comment. Where a transition comes first, the list says when."""
    lists = re.findall(r'(?:^ \*   .*\n)+', read(path), re.M)
    text = re.sub(r'\n \* {20,}', ' ', lists[part])
    edges = [re.fullmatch(r' \*   (\w+) -> (\w+)  (\w+)(?:: (.*))?', line) for line in text.splitlines()]
    assert all(edges), 'not an edge: %s' % [l for l, e in zip(text.splitlines(), edges) if not e]
    explained = {}
    for edge in edges:
        assert explained.setdefault(edge.group(3), edge.group(4)), 'when? ' + edge.group(3)
    return [edge.groups()[:3] for edge in edges]


def to(edges, state, *origins):
    return {name for origin, end, name in edges
            if end == state and name and (not origins or origin in origins)}


def states(edges):
    return {state for edge in edges for state in edge[:2]} - {'none'}


def enumerated(path, name):
    body = re.search(r'^enum %s \{(.*?)\}' % name, read(path), re.M | re.S).group(1)
    return set(re.findall(r'^\s*(\w+)', re.sub(r'/\*.*?\*/', '', body, flags=re.S), re.M))


def same(what, drawn, written):
    assert drawn == written, '%s: only in the list %s, only in the code %s' % (
        what, sorted(drawn - written), sorted(written - drawn))


def a_blocks_list_is_the_code():
    edges, code = listed(BLOCK), functions(SWITCH)
    above = listed(BLOCK, 1)
    same('states', states(edges) | states(above), enumerated('ppe/collective/block/block_priv.h', 'block_state'))
    for _, _, name in edges + above:
        assert name in code, 'no such function: %s' % name
    same('what opens a block', to(edges, 'BLOCK_OPEN', 'none'), who(code, r'\bfill\('))
    # adopt() takes the parent's word for what the block is.
    assert who(code, r'\bb->agreement = ') == {'fill', 'adopt'}, 'others than fill() open blocks'
    assert who(code, r'->state = BLOCK_DONE\b') == {'set_done'}, 'others than set_done()'
    assert who(code, r'\bset_done\(') == {'block_finish', 'block_done'}, 'others than block_finish() and block_done()'
    assert who(code, r'\bblock_finish\(') == {'block_end', 'block_end_special'}, 'others than block_end()'
    same('what finishes a block', to(edges, 'BLOCK_DONE', 'BLOCK_OPEN'), who(code, r'\bblock_end\('))
    same('what finishes a block of a leaf', to(above, 'BLOCK_DONE', 'BLOCK_OPEN', 'BLOCK_UP', 'none'), who(code, r'\bblock_done\('))
    same('what sends a block up', to(above, 'BLOCK_UP', 'BLOCK_OPEN'), who(code, r'->state = BLOCK_UP\b'))
    assert who(code, r'->contribute\(') == {'block_end_special'}, 'others than block_end()'
    same('what releases a block', to(edges, 'none'), who(code, r'(?<!\w)release\('))
    # assign() and sum() are the block_aggregate() of a batch.
    same('who is heard', {'block_aggregate', 'assign', 'answer_late', 'parent_block_pending', 'mismatched', 'child_failed'},
         who(code, r'\bmask_set\(\w+(\(\w+\))?->heard\b|\*heard \|= bit'))
    same('who has a result', {'block_acknowledge'}, who(code, r'\bmask_set\(\w+->received\b'))
    inside = {name for begin, end, name in edges + above if begin == end} | {'mismatched', 'child_failed', 'assign'}
    assert who(code, r'\bmask_set\(\w+->heard\b') <= inside, 'not drawn: who is heard'


def a_flights_list_is_the_code():
    edges, code = listed(FLIGHT), functions('apps/libweir/[!u]*.c')  # unexpected.c is the other user of recovery.h
    drawn = states(edges)
    same('states', drawn, enumerated('apps/libweir/recovery.h', 'weir_flight_state'))
    # Flights of the window are not given up.
    for state, call, more in (('WEIR_FLIGHT_READY', 'ready', set()), ('WEIR_FLIGHT_FLYING', 'sent', set()),
                              ('WEIR_FLIGHT_IDLE', 'idle', {'weir_recovery_lost'})):
        same('what leads to ' + state, to(edges, state, *drawn) | more, who(code, r'\bweir_flight_%s\(' % call))


def the_model_names_functions():
    model = read_model()
    named = set(re.findall(r'^inline (\w+)\(', model, re.M)) - OWN
    known = set(functions(SWITCH)) | set(functions(HOST))
    assert len(named) > 15, 'only %d inlines' % len(named)
    assert named <= known, 'no such functions: %s' % sorted(named - known)
    for _, _, name in listed(BLOCK):
        # In the model payloads have no length, packets are not damaged, sources join (no generation is fixed), no block fails.
        if name not in ('mismatched', 'child_failed', 'block_regroup', 'block_unopen'):
            assert re.search(r'\b%s\(' % name, model), 'not in the model: %s' % name


def a_leafs_list_is_the_model():
    inlines = set(re.findall(r'^inline (\w+)\(', read_model() + read('tests/spin/tree.pml'), re.M))
    drawn = {name for _, _, name in listed(BLOCK, 1)}
    assert drawn <= inlines, 'not in the model: %s' % sorted(drawn - inlines)
    way_up = {name for name in inlines if re.search('parent|^answered$', name)}
    code = set(functions('ppe/collective/tree/parent*.c'))
    assert way_up <= code and len(way_up) > 5, 'not in the code: %s' % sorted(way_up - code)


def the_checker_knows_the_faults():
    planted = set(re.findall(r'BUG_(\w+)', read_model() + read('tests/spin/tree.pml')))
    tried = set(re.findall(r"^    \('([A-Z_]+)', (?:'|[A-Z])", read('tests/spin/check.py'), re.M))
    assert planted == tried and planted, 'planted, but not tried, or the other way: %s' % sorted(planted ^ tried)


CASES = [a_blocks_list_is_the_code, a_flights_list_is_the_code, the_model_names_functions, a_leafs_list_is_the_model,
         the_checker_knows_the_faults]


def main():
    failed = 0
    print('1..%d' % len(CASES))
    for number, case in enumerate(CASES, 1):
        try:
            case()
            print('ok %d - %s' % (number, case.__name__.replace('_', ' ')))
        except AssertionError as wrong:
            failed += 1
            print('not ok %d - %s\n# %s' % (number, case.__name__.replace('_', ' '), wrong))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
