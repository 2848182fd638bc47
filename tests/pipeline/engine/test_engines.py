"""Both engines on straight pipelines: equal bytes, and those of an independent computation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from stoker.pipeline import Row, pipeline
from stoker.pipeline.compiled.executor import compile_plan
from stoker.pipeline.plain.interpreter import Interpreter
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import SampleError, UsageError
from stoker.rng.row import row_table


@pytest.fixture(scope="module")
def joint(toys):
    @pipeline
    def train(sample):
        image, mask = toys.crop(sample.image, sample.mask, side=64)
        image, mask = toys.flip(image, mask)
        return {"image": toys.shift(image), "mask": mask, "label": sample.label}

    return train


def test_engines_agree_and_match_numpy(joint, varied, photo, rows, both):
    plan = bind(joint.graph(), varied)
    image, mask = photo
    assert plan.fields == ("image", "mask", "label")
    seen = set()
    for row, (got, got_mask, label) in zip(
        rows, both(plan, rows, (image, mask, np.int64(-3))), strict=True
    ):
        probe = Interpreter(plan)
        probe.run(row, (image, mask, np.int64(-3)), [got.copy(), got_mask.copy(), label.copy()])
        crop, flip, shift = (made["record"] for made in probe.records())
        seen.add((crop["top"], crop["left"], flip["flip"], shift["by"]))
        box = np.s_[crop["top"] : crop["top"] + 64, crop["left"] : crop["left"] + 64]
        step = -1 if flip["flip"] else 1
        assert np.array_equal(got, (image[box][:, ::step] + np.uint8(shift["by"])))
        assert np.array_equal(got_mask, mask[box][:, ::step])
        assert label == -3
    assert len(seen) == len(rows)


def test_run_rows_equals_run(toys, photo, rows, located):
    @pipeline
    def small(sample):
        image, mask = toys.flip(*toys.crop(sample.image, sample.mask, side=24))
        return {"image": toys.scale(image), "mask": mask, "label": sample.label}

    image, mask = photo
    images = np.stack([image[k : k + 32, k : k + 32] for k in range(5)])
    masks = np.stack([mask[k : k + 32, k : k + 32] for k in range(5)])
    images.flags.writeable = False
    labels = np.arange(5)
    plan = small.plan_for({"image": images[0], "mask": masks[0], "label": labels[0]})
    engine = compile_plan(plan)
    index = np.array([k * 3 % 5 for k in range(len(rows))])
    batch = [np.zeros((len(rows), *o.shape), o.dtype) for o in plan.outputs]
    columns = [{"image": images, "mask": masks, "label": labels}[name] for name in plan.fields]
    good = located(columns, index)
    engine.run_rows(row_table(rows), good, batch)
    for place, row in enumerate(rows):
        single = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
        engine.run(row, [column[index[place]] for column in columns], single)
        for whole, one in zip(batch, single, strict=True):
            assert np.array_equal(whole[place], one)
    for given, message in (
        (located(columns, index[1:]), r"addresses of shape \(3, \d+\), got int64 \(3, \d+\)"),
        (located([images.view(np.int8), *columns[1:]], index), "samples of image uint8.*got int8"),
        (located([images[..., 0].copy(), *columns[1:]], index), r"of image .*, got .*\(32, 32\)"),
        (dataclasses.replace(good, addresses=0 * good.addresses), "an address for every row"),
    ):
        with pytest.raises(UsageError, match=message):
            engine.run_rows(row_table(rows), given, batch)


@pytest.mark.parametrize("make", [Interpreter, compile_plan], ids=["interpreter", "executor"])
def test_sample_that_does_not_fit(make, joint, varied, photo):
    plan = bind(joint.graph(), varied)
    engine = make(plan)
    image, mask = photo
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    with pytest.raises(
        SampleError, match=r"toy_crop on field 'image' and field 'mask': .* 300x451 and 299x451"
    ) as caught:
        engine.run(Row(1, 42, 0), (image, mask[:-1], np.int64(0)), outputs)
    assert caught.value.details["id"] == 42
    big = np.zeros((513, 20, 3), np.uint8)
    with pytest.raises(
        SampleError, match=r"field 'image' is image uint8\[<=512x<=512x3\].* is 513x20"
    ) as caught:
        engine.run(Row(1, 43, 0), (big, mask, np.int64(0)), outputs)
    assert caught.value.details["field"] == "image"
    with pytest.raises(UsageError, match=r"input 'image': expected image uint8.*, got float32"):
        engine.run(Row(1, 1, 0), (image.astype(np.float32), mask, np.int64(0)), outputs)
    with pytest.raises(UsageError, match=r"output 'image': expected a writable, contiguous uint8"):
        engine.run(Row(1, 1, 0), (image, mask, np.int64(0)), [outputs[0][:1], *outputs[1:]])


def test_inputs_of_any_memory(joint, varied, photo):
    """Strided, read-only and Python inputs give the same bytes as plain ones."""
    plan = bind(joint.graph(), varied)
    engine = compile_plan(plan)
    image, mask = photo
    expected = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    got = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    engine.run(Row(1, 2, 3), (image, mask, np.int64(5)), expected)
    strided = np.asfortranarray(image)
    locked = mask.copy()
    locked.flags.writeable = False
    engine.run(Row(1, 2, 3), (strided, locked, 5), got)
    assert all(np.array_equal(a, b) for a, b in zip(expected, got, strict=True))


def test_a_mistake_in_the_engine_is_not_hidden(joint, varied, photo, monkeypatch):
    """It is not taken for an argument that must be converted, after which the row runs anyway."""
    plan = bind(joint.graph(), varied)
    engine = compile_plan(plan)
    image, mask = photo
    outputs = [np.zeros(o.shape, o.dtype) for o in plan.outputs]
    monkeypatch.setattr(engine, "_in_shapes", None)
    with pytest.raises(TypeError, match="not subscriptable"):
        engine.run(Row(1, 2, 3), (image, mask, np.int64(5)), outputs)
