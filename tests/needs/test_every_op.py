"""What users need of every op: the same bytes in any process, kinds never guessed, edits local."""

import dataclasses
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from stoker import ops
from stoker.ops import Op, registered
from stoker.ops.contract import same_size
from stoker.pipeline import Row, pipeline
from stoker.pipeline.decisions import decide
from stoker.pipeline.plan import bind
from stoker.protocol.errors import BuildError

IDS = range(12)
PROCESSES = 3


@pytest.mark.slow
def test_every_op_gives_the_same_bytes_in_any_process(every_op):
    """Each process starts afresh, hashes otherwise, and takes its ids backwards."""
    expected = every_op.digests(IDS)
    assert len({json.dumps(row) for row in expected.values()}) == len(IDS)
    covered = {name.split()[0] for name in expected["0"]}
    assert covered == {n for n, op in registered().items() if {"image", "mask"} & set(op.kernels)}
    started = [
        subprocess.Popen(
            [sys.executable, every_op.__file__, *map(str, reversed(IDS[k::PROCESSES]))],
            env={**os.environ, "PYTHONHASHSEED": str(k + 1)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for k in range(PROCESSES)
    ]
    found = [json.loads(process.communicate()[0]) for process in started]
    assert {number: row for part in found for number, row in part.items()} == expected


def test_a_kind_without_a_rule_is_refused_by_line(every_op):
    """No op passes on a value that it has no rule for."""
    refused = 0
    for op in every_op.one_of_each():
        for kind in ("image", "mask"):
            if every_op.result(op, kind) is None:

                @pipeline
                def train(sample, op=op, kind=kind):
                    return {"value": op(sample[kind])}

                with pytest.raises(BuildError) as caught:
                    bind(train.graph(), every_op.STATES)
                message = str(caught.value)
                assert "test_every_op.py:" in message
                assert op.name in message
                assert kind in message
                refused += 1
    assert refused > 20


def keeps_size(op: Op) -> bool:
    return op.random and "image" in op.kernels and type(op).out_size is same_size


def decided(chosen: list[Op], number: int) -> dict[str, object]:
    """What each op of a chain decides for a row: stream -> record."""

    def chain(sample):
        value = sample.image
        for op in chosen:
            value = op(value)
        return {"image": ops.center_crop(value, size=16)}

    plan = pipeline(chain).plan_for({"image": np.zeros((40, 56, 3), np.uint8)})
    entries = decide(plan, Row(seed=5, id=number, epoch=number % 3), sizes={})
    return {entry["stream"]: entry["record"] for entry in entries if entry["stream"]}


@pytest.mark.parametrize("seed", range(40))
def test_an_edit_leaves_what_others_decide(every_op, seed):
    """An op is put in, taken out, moved, or given p=0: the others decide as before."""
    rng = np.random.default_rng(seed)
    able = [op for op in every_op.one_of_each() if keeps_size(op)]
    picked = [able[i] for i in rng.permutation(len(able))[:7]]
    *chain, new = picked
    place = int(rng.integers(len(chain)))
    switch = next(op for op in chain if "p" in {f.name for f in dataclasses.fields(op)})
    edits = {
        "put in": [*chain[:place], new, *chain[place:]],
        "taken out": [op for op in chain if op is not chain[place]],
        "moved": [chain[i] for i in rng.permutation(len(chain))],
        "off": [dataclasses.replace(op, p=0.0) if op is switch else op for op in chain],
    }
    for number in range(3):
        before = decided(chain, number)
        assert len(before) == len(chain)
        for what, edited in edits.items():
            after = decided(edited, number)
            common = (before.keys() & after.keys()) - ({switch.name} if what == "off" else set())
            assert len(common) >= len(chain) - 1, what
            assert {n: before[n] for n in common} == {n: after[n] for n in common}, what
