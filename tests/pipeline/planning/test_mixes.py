"""Batch ops in pipelines: where they may stand, and what a batch in process is."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops import State
from stoker.ops.values.choice_ops import OneOf
from stoker.pipeline import one_of, pipeline, random_apply
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError, UsageError
from stoker.protocol.item_fields import ItemField

STATES = {
    "image": State.fixed("image", "uint8", (40, 50, 3)),
    "mask": State.fixed("mask", "uint8", (40, 50)),
    "label": State.fixed("label", "int64", ()),
    "weight": State.fixed("scalar", "float32", ()),
}
ALPHA, CHANCE = 0.7, 0.8


@pipeline
def both(sample):
    image = ops.horizontal_flip(sample.image)
    label = ops.one_hot(sample.label, classes=5)
    image, label = ops.cutmix(image, label, p=0.5)
    image, label = ops.mixup(image, label, sample.weight, alpha=ALPHA, p=CHANCE)[:2]
    return {"image": image, "label": label}


@pytest.fixture(scope="module")
def samples(photo):
    image, mask = photo
    rng = np.random.default_rng(1)
    corners = rng.uniform(0, 40, (20, 3, 2, 2))
    return [
        {
            "image": image[10 * n : 10 * n + 40, 9 * n : 9 * n + 50],
            "mask": mask[10 * n : 10 * n + 40, 9 * n : 9 * n + 50],
            "label": n % 5,
            "weight": np.float32(n),
            "boxes": {"xyxy": np.hstack([corners[n].min(1), corners[n].max(1)]), "who": [n] * 3},
        }
        for n in range(20)
    ]


def same(one, other):
    for left, right in zip(one, other, strict=True):
        assert left.keys() == right.keys()
        for name, value in left.items():
            parts = value if isinstance(value, dict) else {"": value}
            found = right[name] if isinstance(value, dict) else {"": right[name]}
            for key, part in parts.items():
                assert part.dtype == found[key].dtype
                assert part.shape == found[key].shape, (name, key)
                assert part.tobytes() == found[key].tobytes(), (name, key)


def test_an_engine_computes_rows_before_all_batch_ops():
    plan = bind(both.graph(), STATES)
    assert [mix.op.name for mix in plan.mixes] == ["cutmix", "mixup"]
    assert plan.streams == ("cutmix", "horizontal_flip", "mixup")
    assert plan.outputs == plan.delivered
    assert plan.mixes[0].size == (40, 50)
    assert len(plan.decisions) == 4


def test_bounds_of_items_add_up():
    @pipeline
    def items(sample):
        image, boxes = ops.mosaic(sample.image, sample.boxes)
        image, boxes = ops.mixup(image, boxes)
        return {"boxes": boxes, "image": image, "before": ops.unlinked(sample.boxes)}

    boxes = State.ragged("boxes", (ItemField("xyxy", "float32", 4),), 6)
    plan = bind(items.graph(), {"image": STATES["image"], "boxes": boxes})
    shapes = {output.name: output.shape for output in plan.delivered}
    assert shapes == {
        "boxes": (48, 4), "boxes.count": (), "image": (40, 50, 3), "before": (6, 4),
        "before.count": (),
    }  # fmt: skip
    assert plan.outputs[0].shape == (6, 4)


def test_rows_are_mixed_as_their_records_say(samples):
    """Each row out of its own and its partner's unmixed values, by the definition, in float64."""

    @pipeline
    def unmixed(sample):
        return {"image": ops.horizontal_flip(sample.image), "weight": sample.weight}

    @pipeline
    def mixed(sample):
        image, weight = ops.mixup(
            ops.horizontal_flip(sample.image), sample.weight, alpha=ALPHA, p=CHANCE
        )
        return {"image": image, "weight": weight}

    ids = list(range(19, 0, -1))
    got = mixed.batch(samples, ids, seed=3, epoch=4)
    rows = {n: unmixed(samples[n], seed=3, epoch=4, id=n) for n in ids}
    changed = 0
    for place, number in enumerate(ids):
        drawn = ops.Mixup(ALPHA, CHANCE).sample(0, 0, seed=3, epoch=4, id=number)
        first, size = place // 8 * 8, min(8, len(ids) - place // 8 * 8)
        others = [ids[first + (place - first + 1 + k) % size] for k in range(size - 1)]
        part = drawn["lam"] if drawn["applied"] else 1.0
        own, other = rows[number], rows[others[drawn["offset"] % (size - 1)]]
        image = own["image"] * part + other["image"] * (1 - part)
        assert np.abs(got[place]["image"] - image).max() <= 0.502
        weight = own["weight"] * part + other["weight"] * (1 - part)
        assert got[place]["weight"] == pytest.approx(weight, rel=1e-6)
        changed += 0.001 < part < 0.999
    assert changed > 6


def test_a_second_batch_op_reads_what_the_first_made(samples):
    """Cutmix after mixup, out of batches that have one of them."""

    @pipeline
    def first(sample):
        return {"image": ops.mixup(sample.image, alpha=ALPHA)}

    @pipeline
    def second(sample):
        return {"image": ops.cutmix(ops.mixup(sample.image, alpha=ALPHA))}

    before = [row["image"] for row in first.batch(samples, seed=1)]
    got = [row["image"] for row in second.batch(samples, seed=1)]
    for place in range(16):
        drawn = ops.Cutmix().sample(0, 0, seed=1, id=place)
        other = place // 8 * 8 + (place % 8 + 1 + drawn["offset"] % 7) % 8
        record = np.zeros(1, ops.Cutmix.record)
        for name, value in drawn.items():
            record[name] = value
        ops.Cutmix().resolve(record, (40, 50), [other])
        expected = before[place].copy()
        box = tuple(
            slice(int(record[at][0]), int(record[at][0] + record[side][0]))
            for at, side in (("top", "height"), ("left", "width"))
        )
        expected[box] = before[other][box]
        assert np.array_equal(got[place], expected)


def test_mosaics_show_rows_of_the_same_pipeline(samples):
    @pipeline
    def mosaic(sample):
        image, boxes = ops.horizontal_flip(sample.image, sample.boxes)
        image, boxes = ops.mosaic(image, boxes)
        return {"image": image, "boxes": boxes}

    @pipeline
    def tile(sample):
        image, boxes = ops.horizontal_flip(sample.image, sample.boxes)
        return {"image": image, "boxes": boxes}

    got = mosaic.batch(samples, [3, 11], seed=2, epoch=1)
    for row, number in zip(got, (3, 11), strict=True):
        drawn = ops.Mosaic().sample(0, 0, seed=2, epoch=1, id=number)
        ids = [number, *(word * len(samples) >> 64 for word in drawn["words"])]
        tiles = [tile(samples[n], seed=2, epoch=1, id=n)["image"] for n in ids]
        top, left = round(drawn["y"] * 40), round(drawn["x"] * 50)
        assert np.array_equal(row["image"][:top, :left], tiles[0][40 - top :, 50 - left :])
        assert np.array_equal(row["image"][:top, left:], tiles[1][40 - top :, : 50 - left])
        assert np.array_equal(row["image"][top:, :left], tiles[2][: 40 - top, 50 - left :])
        assert np.array_equal(row["image"][top:, left:], tiles[3][: 40 - top, : 50 - left])
        assert set(row["boxes"]["who"].tolist()) <= set(ids)
        assert (row["boxes"]["xyxy"] >= 0).all()
        assert (row["boxes"]["xyxy"] <= [50, 40, 50, 40]).all()


def test_a_row_alone_and_a_small_group_are_legal(samples):
    alone = both.batch(samples, [4])
    plain = both.batch(samples, [4], freeze={"cutmix": 1, "mixup": 2})
    same(alone, plain)
    assert alone[0]["label"].tolist() == [0, 0, 0, 0, 1]
    pair = both.batch(samples, [4, 7], seed=1)
    assert any(np.count_nonzero(row["label"]) == 2 for row in pair)


def test_machine_code_gives_the_same_bytes(samples):
    @pipeline
    def everything(sample):
        image, mask, boxes = ops.horizontal_flip(sample.image, sample.mask, sample.boxes)
        label = ops.one_hot(sample.label, classes=5)
        half = ops.normalize(image, dtype="float16", layout="CHW")
        image, mask, half, boxes = ops.mosaic(image, mask, half, ops.unlinked(boxes), p=0.5)
        image, mask, half, label = ops.cutmix(image, mask, half, label, p=0.5)
        image, half, label, boxes = ops.mixup(image, half, label, boxes, alpha=2.0)
        return {"image": image, "mask": mask, "half": half, "label": label, "boxes": boxes}

    plain = everything.batch(samples, seed=9, epoch=2)
    same(plain, everything.batch(samples, seed=9, epoch=2, compiled=True))
    freeze = {"mixup": 5, "mosaic": "epoch"}
    frozen = everything.batch(samples, seed=9, epoch=2, freeze=freeze)
    same(frozen, everything.batch(samples, seed=9, epoch=2, freeze=freeze, compiled=True))
    assert any((a["image"] != b["image"]).any() for a, b in zip(plain, frozen, strict=True))


def test_views_and_schedules(samples):
    @pipeline
    def grown(sample, ctx):
        return {"image": ops.mixup(sample.image, alpha=1.0, p=ctx.progress)}

    none = grown.batch(samples, progress=0.0)
    assert all(np.array_equal(r["image"], s["image"]) for r, s in zip(none, samples, strict=True))
    some, other = (grown.batch(samples, progress=1.0, view=view) for view in (0, 1))
    assert any((a["image"] != b["image"]).any() for a, b in zip(some, other, strict=True))


def refused(define, states=None, error=BuildError):
    with pytest.raises(error) as raised:
        bind(pipeline(define).graph(), states or STATES)
    assert "test_mixes.py:" in str(raised.value)
    return str(raised.value)


def test_nothing_but_batch_ops_follows():
    def op(sample):
        return {"image": ops.invert(ops.mixup(sample.image))}

    def instance(sample):
        flip = ops.HorizontalFlip()
        return {"clean": flip(sample.image), "image": flip(ops.mixup(sample.image))}

    def expression(sample):
        weight = ops.mixup(sample.weight)
        return {"weight": weight * 2}

    def statistic(sample):
        image = ops.mixup(sample.image)
        return {"image": image, "mean": image.mean()}

    for define in (op, instance, expression, statistic):
        message = refused(define)
        assert "this reads the result of mixup (at " in message, define.__name__
        assert "Move this before it" in message


def test_branches_hold_batch_ops_alone():
    def branch(sample):
        image = sample.image
        if sample.label > 2:
            image = ops.cutmix(ops.invert(image))
        return {"image": image}

    def other(sample):
        image = ops.mixup(sample.image)
        if sample.label > 2:
            image = ops.invert(sample.image)
        return {"image": image}

    for define in (branch, other):
        message = refused(define)
        assert "are not one value that batch ops mix" in message
        assert "Use only batch ops in the branches" in message


def test_alternatives_read_rows_as_they_are_before_them(samples):
    """One of mixup and cutmix for each row, or neither: out of the pictures and the records."""

    @pipeline
    def chosen(sample):
        image, label = sample.image, ops.one_hot(sample.label, classes=5)
        if sample.label > 0:
            image, label = one_of(
                image, label, choices={"mixup": ops.Mixup(2.0), "cutmix": ops.Cutmix()}
            )
        return {"image": image, "label": label}

    seen = set()
    got = chosen.batch(samples, seed=4)
    for place, row in enumerate(got):
        own = samples[place]["image"]
        first, size = place // 8 * 8, min(8, len(samples) - place // 8 * 8)
        choice = None
        if samples[place]["label"] > 0:
            choice = OneOf((0.5, 0.5)).sample(0, 0, seed=4, id=place, stream="one_of")["choice"]
        if choice is None:
            expected = own
        else:
            op, name = ((ops.Mixup(2.0), "mixup"), (ops.Cutmix(), "cutmix"))[choice]
            drawn = op.sample(0, 0, seed=4, id=place, stream=f"one_of/{name}/{name}")
            other = first + (place - first + 1 + drawn["offset"] % (size - 1)) % size
            theirs = samples[other]["image"]
            if name == "mixup":
                expected = own * drawn["lam"] + theirs * (1 - drawn["lam"])
            else:
                record = np.zeros(1, op.record)
                for key, value in drawn.items():
                    record[key] = value
                op.resolve(record, (40, 50), [other])
                box = tuple(
                    slice(int(record[at][0]), int(record[at][0] + record[side][0]))
                    for at, side in (("top", "height"), ("left", "width"))
                )
                expected = own.copy()
                expected[box] = theirs[box]
        seen.add(choice)
        assert np.abs(row["image"] - expected).max() <= 0.502, (place, choice)
    assert seen == {None, 0, 1}
    same(got, chosen.batch(samples, seed=4, compiled=True))


def test_a_batch_op_after_a_choice_reads_what_was_chosen(samples):
    @pipeline
    def after(sample):
        image, boxes = random_apply(sample.image, sample.boxes, apply=ops.Mixup(2.0), p=0.5)
        image, boxes = ops.mixup(image, boxes, alpha=1e-6, stream="second")
        return {"image": image, "boxes": boxes}

    plain = after.batch(samples, seed=6)
    same(plain, after.batch(samples, seed=6, compiled=True))
    counts = {len(row["boxes"]["who"]) for row in plain}
    assert counts == {6, 9, 12}


def test_one_order_for_all_values():
    def crossed(sample):
        one, two = ops.Mixup(), ops.Cutmix()
        return {"image": two(one(sample.image)), "weight": one(two(sample.image))}

    def twice(sample):
        mix = ops.Mixup()
        return {"image": mix(mix(sample.image))}

    def late(sample):
        return {"image": ops.mosaic(ops.mixup(sample.image))}

    assert "batch ops in one order for all values, each once" in refused(crossed)
    assert "batch ops in one order for all values, each once" in refused(twice)
    assert "call it before mixup, and only once" in refused(late)


def test_pictures_of_one_call_are_of_one_size():
    def sizes(sample):
        small = ops.resize(sample.image, size=(20, 20))
        image, small = ops.cutmix(sample.image, small)
        return {"image": image, "small": small}

    def without(sample):
        return {"weight": ops.cutmix(sample.weight)}

    assert "cutmix: expected values of one size in a call" in refused(sizes)
    assert "expected an image, mask or array of pixels among its values" in refused(without)


def test_labels_that_are_class_numbers_are_refused_at_their_line():
    def label(sample):
        image, label = ops.mixup(sample.image, sample.label)
        return {"image": image, "label": label}

    message = refused(label)
    assert "ops.one_hot(label, classes=...)" in message


def test_one_sample_has_no_other_rows(samples):
    with pytest.raises(UsageError) as raised:
        both(samples[0])
    assert "both: cutmix (at " in str(raised.value)
    assert "run a batch, both.batch([sample, ...], ids=[...])" in str(raised.value)


def test_a_batch_needs_samples_that_are_alike(samples):
    with pytest.raises(UsageError, match="expected ids of the 20 samples given, got id 20"):
        both.batch(samples, [20])
    with pytest.raises(UsageError, match="expected ids of the 20 samples given, got no row"):
        both.batch(samples, [])
    with pytest.raises(UsageError, match="expected the fields image, mask"):
        both.batch([samples[0], {"image": samples[1]["image"]}])
    odd = {**samples[1], "label": 2.5}
    with pytest.raises(
        UsageError, match=r"field 'label' is label int64.* in one sample and scalar"
    ):
        both.batch([samples[0], odd])

    @pipeline
    def mosaic(sample):
        return {"image": ops.mosaic(sample.image)}

    with pytest.raises(UsageError, match="expected the ids 0 to 1; give a list"):
        mosaic.batch({3: samples[3], 9: samples[9]})
    same(both.batch({3: samples[3], 9: samples[9]}), both.batch(samples, [3, 9]))


def test_samples_of_many_sizes_are_bound_together(photo):
    image, _ = photo

    @pipeline
    def cropped(sample):
        return {"image": ops.cutmix(ops.random_crop(sample.image, size=24))}

    samples = [{"image": image[: 30 + 7 * n, : 90 - 6 * n]} for n in range(9)]
    assert {row["image"].shape for row in cropped.batch(samples)} == {(24, 24, 3)}


def test_a_mosaic_in_a_branch_draws_from_all_samples_too(photo):
    image, _ = photo

    @pipeline
    def some(sample):
        crop = ops.random_crop(sample.image, size=24)
        if sample.label > 0:
            crop = ops.mosaic(crop, p=1.0)
        return {"image": crop}

    samples = [{"image": image[: 30 + 7 * n, : 90 - 6 * n], "label": n % 2} for n in range(9)]
    whole = some.batch(samples, seed=4)
    same(some.batch(samples, [0, 1, 2, 3, 4, 5, 6, 7], seed=4), whole[:8])


def test_a_batch_op_is_part_of_the_pipeline_id():
    def made(alpha):
        return pipeline(lambda sample: {"image": ops.mixup(sample.image, alpha=alpha)}).pipeline_id

    assert len({made(0.2), made(0.3), both.pipeline_id}) == 3
