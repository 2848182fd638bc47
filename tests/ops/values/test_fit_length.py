"""fit_length: slices of sequences, by Python's own slicing; which one, and what does not fit."""

from collections import Counter

import numpy as np
import pytest

from stoker import ops
from stoker.ops import FitLength, State
from stoker.pipeline import outputs, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import SampleError
from stoker.rng.row import Row

STATES = {
    "words": State("array", "int32", (None,), (40,)),
    "marks": State("array", "float32", (None, 3), (40, 3)),
    "text": State("bytes", "uint8", (None,), (40,)),
}


def pipeline_of(keep):
    @pipeline
    def cut(sample):
        words, marks, text = ops.fit_length(sample.words, sample.marks, sample.text, keep=keep)
        return {
            "words": outputs.ragged(words),
            "marks": outputs.as_list(marks),
            "text": outputs.pad(text, to="bound"),
        }

    return cut


def fields(count):
    words = np.arange(count, dtype=np.int32)
    marks = np.stack([words, 2 * words, -words], 1).astype(np.float32)
    return {"words": words, "marks": marks, "text": (words % 251).astype(np.uint8)}


@pytest.fixture(scope="module", params=["first", "last", "random"])
def engines(request):
    """keep, and both engines over sequences of up to 40, bound to the bucket of length 16."""
    plan = bind(pipeline_of(request.param).graph(), STATES, bucket=ops_size(16))
    return request.param, Interpreter(plan), compile_plan(plan)


def ops_size(length):
    from stoker.pipeline.planning.bucket_graph import given_size  # noqa: PLC0415 - one word for it here

    return given_size(length)


def run(engine, number, count):
    made = [np.full(output.shape, 77, output.dtype) for output in engine.plan.outputs]
    given = fields(count)
    engine.run(Row(5, number, 0, 0, 0), [given[name] for name in engine.plan.fields], made)
    return dict(zip((output.name for output in engine.plan.outputs), made, strict=True))


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 40])
def test_what_is_kept_is_a_slice(engines, count):
    keep, plain, machine = engines
    assert plain.plan.outputs[0].shape == (16,)
    for number in range(5):
        made = run(plain, number, count)
        other = run(machine, number, count)
        assert all(np.array_equal(made[name], other[name]) for name in made)
        length = int(made["words.size"][0])
        assert length == min(count, 16)
        start = int(made["words"][0]) if length else 0
        assert {"first": start == 0, "last": start == count - length, "random": True}[keep]
        part = slice(start, start + length)
        assert np.array_equal(made["words"][:length], fields(count)["words"][part])
        assert np.array_equal(
            made["marks"].reshape(-1)[: 3 * length], fields(count)["marks"][part].reshape(-1)
        )
        assert bytes(made["text"]) == bytes(fields(count)["text"][part]).ljust(16, b"\0")


def test_random_starts_are_uniform_and_the_default_is_the_beginning():
    op = FitLength(10, "random")
    found = Counter(op.sample(14, 1, id=number)["start"] for number in range(2000))
    assert set(found) == set(range(5))
    assert min(found.values()) > 320
    assert op.sample(10, 1) == {"start": 0, "length": 10}
    assert FitLength(10).sample(14, 1, id=3)["start"] == 0


def test_sequences_of_one_call_are_as_long_as_each_other(engines):
    _, plain, machine = engines
    given = fields(30)
    given["marks"] = given["marks"][:29]
    for engine in (plain, machine):
        made = [np.zeros(output.shape, output.dtype) for output in engine.plan.outputs]
        with pytest.raises(SampleError, match=r"sample 3: .*fit_length on array float32"):
            engine.run(Row(5, 3, 0, 0, 0), [given[name] for name in engine.plan.fields], made)


def test_in_process_the_bucket_is_a_length():
    made = pipeline_of("last")(fields(30), bucket=12)
    assert made["words"].tolist() == list(range(18, 30))


def test_a_fixed_array_gets_the_length():
    fixed = State.fixed("array", "int32", (9, 2))
    assert FitLength(5).declare((fixed,))[0][0].shape == (5, 2)
