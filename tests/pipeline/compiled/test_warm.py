"""Pipelines look up exactly the kernels that are compiled ahead."""

import numpy as np
import pytest

from stoker import ops
from stoker.jit import compiled
from stoker.jit.arithmetic import COMPILED
from stoker.ops.contract.registry import batch_ops, lookup, registered
from stoker.ops.contract.templates import adapted
from stoker.ops.kernels.means import Tools
from stoker.pipeline import pipeline
from stoker.pipeline.compiled.adapters import draw_by
from stoker.pipeline.compiled.program import write_program
from stoker.pipeline.compiled.signature import call_types
from stoker.pipeline.compiled.warm_kernels import batch_calls, op_calls, warm
from stoker.pipeline.planning.planner import bind


def ours():
    return [op for op in registered().values() if op.__module__.startswith("stoker.")]


def test_every_op_has_calls_for_every_kind_of_pixels():
    for op in ours():
        kernels = {fn for fn, _ in op_calls([op])}
        assert kernels >= {op.kernels[k].run for k in ("image", "mask") if k in op.kernels}
        draw = adapted(draw_by, op.draw) if op.draws_from else op.draw
        assert (draw in kernels) == (op.draw is not ops.Op.draw)


def test_a_pipeline_asks_for_nothing_else(varied):
    @pipeline
    def train(sample):
        image, mask = ops.random_resized_crop(sample.image, sample.mask, size=24)
        if sample.label > 3:
            image, mask = ops.rotate(image, mask, degrees=30)
            image = ops.gaussian_noise(ops.color_jitter(image))
        half = ops.normalize(image, dtype="float16", layout="CHW")
        classes = ops.one_hot(sample.label, classes=5)
        return {"a": half, "b": ops.normalize(image), "mask": mask, "label": classes}

    calls = write_program(bind(train.graph(), varied)).calls.values()
    asked = {(call.function, call_types(call)) for call in calls}
    assert len(asked) > 8
    assert asked <= set(op_calls(ours()))


@pytest.mark.parametrize("processes", [1, 3])
def test_what_is_there_is_not_compiled_again(processes):
    calls = list(op_calls([lookup("invert")]))
    first, second = warm(calls, processes), warm(calls, processes)
    assert sum(first) == sum(second) == len(set(calls))
    assert second.compiled == 0


def test_batch_ops_find_all_that_they_run():
    """After warming, every kind and dtype is mixed without another compilation."""
    calls = list(batch_calls())
    warm(calls)
    compiled_forms = [compiled(fn) for fn, _ in calls]
    before = [len(fast.overloads) for fast in compiled_forms]
    tools = Tools(arithmetic=COMPILED)
    for dtype in ("uint8", "float16", "float32", "float64"):
        a, b, dst = np.ones((3, 40), dtype)
        tools.blend(a, b, dst, 0.3)
        tools.paste(*np.ones((3, 4, 5), dtype), (1, 4, 5), (1, 2, 3, 2))
        tools.paste(*np.ones((3, 3, 4, 5), dtype), (3, 4, 5), (1, 2, 3, 2))
    items = np.zeros((2, 5), np.uint32)
    for kind in ("boxes", "keypoints"):
        tools.move(kind, items, np.zeros((4, 5), np.uint32), (1.0,) * 9, (4, 4, 4, 4), 0)
    assert [len(fast.overloads) for fast in compiled_forms] == before
    assert {fn for fn, _ in calls} >= {cls.draw for cls in batch_ops().values()}
