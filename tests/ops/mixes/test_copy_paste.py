"""copy_paste: pixels, masks, boxes and numbers by a plain rule, soft edges, and mistakes."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from stoker import ops
from stoker.jit.arithmetic import PLAIN
from stoker.ops import CopyPaste, ParameterError, State, StateError
from stoker.ops.bases.batch_op import Mixed
from stoker.ops.bases.objects import blended, chosen_of, soft_edge, surrounding
from stoker.ops.kernels.means import Tools
from stoker.pipeline import pipeline
from stoker.pipeline.planning.planner import bind
from stoker.protocol.errors import BuildError
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items

SIZE = (40, 52)
IMAGE = State.fixed("image", "uint8", (*SIZE, 3))
PLANAR = State.fixed("array", "float32", (3, *SIZE))
HALVES = State.fixed("array", "float16", (3, *SIZE))
FIELDS = (
    ItemField("xyxy", "float32", 4),
    ItemField("instance", "int64"),
    ItemField("label", "int32"),
    ItemField("visible_part", "float32"),
)
BOXES = State.ragged("boxes", FIELDS, 12, "image")
TOOLS = Tools(arithmetic=PLAIN)


def mask_state(dtype="uint16"):
    return State.fixed("mask", dtype, SIZE)


def scene(seed, first=1, dtype="uint16"):
    """A mask of up to 8 overlapping rectangles, numbered from `first`, and the visible boxes."""
    noise, mask = np.random.default_rng(seed), np.zeros(SIZE, dtype)
    count = int(noise.integers(0, 9))
    for number in range(first, first + count):
        top, left = (int(noise.integers(0, side - 4)) for side in SIZE)
        tall, wide = noise.integers(3, 20, 2)
        mask[top : top + tall, left : left + wide] = number
    numbers = [n for n in range(first, first + count) if (mask == n).any()]
    return mask, items_of(mask, numbers)


def tight(seen):
    ys, xs = np.nonzero(seen)
    return [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]


def items_of(mask, numbers):
    corners = np.array([tight(mask == n) for n in numbers], np.float32).reshape(-1, 4)
    columns = {"xyxy": corners, "instance": np.array(numbers, np.int64)}
    columns["label"] = np.array([100 + n for n in numbers], np.int32)
    columns["visible_part"] = np.full(len(numbers), 0.5, np.float32)
    return pack_items(FIELDS, columns)


def paste(op, number, given):
    """Run the op on (state, own, other) values; return the results, boxes as columns."""
    record = np.zeros(1, op.record)
    for name, value in op.sample(0, 0, id=number).items():
        record[name] = value
    op.resolve(record, SIZE, [7])
    values = []
    for state, *sources in given:
        dst = np.full(op.mixed(state).bound, 77, state.dtype)
        values.append(Mixed(state, sources, dst))
    counts = op.mix_all(values, record[0], TOOLS)
    made = [
        unpack_items(v.state.items, v.dst[:count]) if v.state.items else v.dst
        for v, count in zip(values, counts, strict=True)
    ]
    return made, record[0]


def images(seed):
    return np.random.default_rng(seed).integers(0, 256, (2, *SIZE, 3)).astype(np.uint8)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
@pytest.mark.parametrize("min_visible", [0.0, 0.3, 1.0])
def test_instances_move_with_pixels_boxes_and_labels(dtype, min_visible):
    op = CopyPaste("instance", min_visible=min_visible)
    shrunk = removed = pasted_boxes = 0
    for number in range(60):
        (own, mine), (other, theirs) = scene(number, 1, dtype), scene(number + 500, 1, dtype)
        one, two = images(number)
        given = [(IMAGE, one, two), (mask_state(dtype), own, other), (BOXES, mine, theirs)]
        (image, mask, boxes), record = paste(op, number, given)
        present = unpack_items(FIELDS, theirs)["instance"].tolist()
        chosen = chosen_of(present, tuple(int(w) for w in record["seed"]), 0.5)
        where = np.isin(other, chosen)
        assert np.array_equal(image, np.where(where[..., None], two, one))
        expected, found = (
            own.copy(),
            dict(zip(boxes["instance"].tolist(), boxes["xyxy"], strict=True)),
        )
        kept = []
        for old in unpack_items(FIELDS, mine)["instance"].tolist():
            seen, whole = (own == old) & ~where, own == old
            part = seen.sum() / whole.sum()
            if not seen.any() or part < min_visible:
                expected[whole] = 0
                assert old not in found
                removed += 1
                continue
            kept.append(old)
            assert found[old].tolist() == tight(seen)
            at = boxes["instance"].tolist().index(old)
            assert boxes["visible_part"][at] == pytest.approx(0.5 * part)
            assert boxes["label"][at] == 100 + old
            shrunk += seen.sum() < whole.sum()
        first = max([0, *np.unique(own).tolist()]) + 1
        for new, old in enumerate(chosen, first):
            expected[other == old] = new
            assert found[new].tolist() == tight(other == old)
            assert boxes["label"][boxes["instance"].tolist().index(new)] == 100 + old
            pasted_boxes += 1
        assert np.array_equal(mask, expected)
        assert boxes["instance"].tolist() == [*kept, *range(first, first + len(chosen))]
        assert len(set(boxes["instance"].tolist())) == len(boxes["instance"])
    assert removed > 0
    assert pasted_boxes > 60
    assert shrunk > 20 or min_visible == 1


def test_classes_keep_their_numbers():
    op = CopyPaste("semantic", object_p=0.6, ignore=(0, 255))
    changed = 0
    for number in range(30):
        own, other = scene(number)[0] % 5, scene(number + 500)[0] % 5
        other[0] = 255
        one, two = images(number)
        (mask, image), record = paste(op, number, [(mask_state(), own, other), (IMAGE, one, two)])
        classes = [n for n in np.unique(other).tolist() if n not in (0, 255)]
        chosen = chosen_of(classes, tuple(int(w) for w in record["seed"]), 0.6)
        where = np.isin(other, chosen)
        assert np.array_equal(mask, np.where(where, other, own))
        assert np.array_equal(image, np.where(where[..., None], two, one))
        changed += bool(where.any())
    assert changed > 20


def test_each_object_is_chosen_by_itself_and_as_often():
    counts = np.zeros(5)
    for number in range(2000):
        chosen = chosen_of([1, 3, 7, 4000, -2], (number, 5), 0.3)
        counts += [n in chosen for n in (1, 3, 7, 4000, -2)]
        assert [n for n in chosen if n in (3, 7)] == chosen_of([3, 7], (number, 5), 0.3)
    assert np.abs(counts / 2000 - 0.3).max() < 0.04
    assert chosen_of([1, 2], (1, 2), 1.0) == [1, 2]
    assert chosen_of([1, 2], (1, 2), 0.0) == []


def test_only_instances_with_a_box_are_pasted():
    own, other = np.zeros(SIZE, np.uint16), np.zeros(SIZE, np.uint16)
    other[2:9, 3:9], other[20:30, 20:30] = 4, 5
    given = [(mask_state(), own, other), (BOXES, items_of(own, []), items_of(other, [5]))]
    (mask, boxes), _ = paste(CopyPaste("instance", object_p=1), 0, given)
    assert boxes["instance"].tolist() == [1]
    assert np.array_equal(mask, (other == 5).astype(np.uint16))
    (mask,), _ = paste(CopyPaste("instance", object_p=1), 0, given[:1])
    assert sorted(np.unique(mask).tolist()) == [0, 1, 2]


def test_numbers_of_absent_and_ignored_objects_are_not_given_again():
    """A box whose object has no pixel keeps its number; 255 of a uint8 mask stays what it means."""
    own, other = np.zeros(SIZE, np.uint8), np.zeros(SIZE, np.uint8)
    own[0, 0], own[5:9, 5:9] = 255, 1
    other[20:30, 20:30], other[31:35, 0:9], other[36:39, 0:9] = 1, 2, 3
    mine = pack_items(
        FIELDS,
        {
            "xyxy": np.zeros((2, 4), np.float32),
            "instance": np.array([1, 253]),
            "label": np.zeros(2, np.int32),
            "visible_part": np.ones(2, np.float32),
        },
    )
    given = [(mask_state("uint8"), own, other), (BOXES, mine, items_of(other, [1, 2, 3]))]
    op = CopyPaste("instance", object_p=1, ignore=(0, 255))
    (mask, boxes), _ = paste(op, 0, given)
    assert boxes["instance"].tolist() == [1, 253, 254], "all other numbers are taken"
    assert mask[0, 0] == 255
    assert (mask == 254).sum() == 100
    assert not mask[31:39, 0:9].any()


@pytest.mark.parametrize(("form", "part"), [("xywh", 0.0), ("cxcywh", 0.5)])
def test_converted_boxes_are_cut_alike(form, part):
    own, mine = scene(3)
    other, theirs = scene(503)
    fields = (ItemField(form, "float32", 4), *FIELDS[1:])

    def as_form(items):
        columns = unpack_items(FIELDS, items)
        corners = columns.pop("xyxy")
        sides = corners[:, 2:] - corners[:, :2]
        return pack_items(
            fields, {form: np.hstack([corners[:, :2] + part * sides, sides]), **columns}
        )

    state = State.ragged("boxes", fields, 12)
    op = CopyPaste("instance", object_p=1, min_visible=0)
    masks = (mask_state(), own, other)
    (_, boxes), _ = paste(op, 1, [masks, (BOXES, mine, theirs)])
    (_, same), _ = paste(op, 1, [masks, (state, as_form(mine), as_form(theirs))])
    sides = boxes["xyxy"][:, 2:] - boxes["xyxy"][:, :2]
    assert np.array_equal(same[form], np.hstack([boxes["xyxy"][:, :2] + part * sides, sides]))


@pytest.mark.parametrize("sigma", [0.5, 2.0, 7.3])
def test_a_soft_edge_is_scipys_gaussian(sigma):
    where = scene(5)[0] > 0
    weights = soft_edge(where, sigma)
    reach = max(int(3 * sigma + 0.5), 1)
    theirs = gaussian_filter(where.astype(float), sigma, mode="nearest", radius=reach)
    assert np.abs(weights / 65536 - theirs).max() < 2e-2 if sigma > 5 else 3e-3
    assert weights.min() >= 0
    assert weights.max() <= 65536
    assert (soft_edge(np.ones(SIZE, bool), sigma) == 65536).all()
    assert (soft_edge(np.zeros(SIZE, bool), sigma) == 0).all()


def test_the_surrounding_part_has_the_same_weights():
    """Only that part of the image is computed."""
    noise = np.random.default_rng(0)
    for _ in range(60):
        where, sigma = np.zeros(SIZE, bool), float(noise.uniform(0.2, 6))
        top, left, tall, wide = (
            noise.integers(0, 36),
            noise.integers(0, 48),
            *noise.integers(1, 12, 2),
        )
        where[top : top + tall, left : left + wide] = True
        part = surrounding(where, sigma)
        found = np.zeros(SIZE, np.int32)
        found[part] = soft_edge(where[part], sigma)
        assert np.array_equal(found, soft_edge(where, sigma))
        assert where[surrounding(where, 0)].all()


def test_soft_edges_mix_pixels_of_every_dtype():
    own, other = scene(8)[0], scene(508)[0]
    one, two = images(8)
    op = CopyPaste("instance", object_p=1, sigma=2)
    planes = [np.ascontiguousarray(i.transpose(2, 0, 1)) for i in (one, two)]
    given = [
        (mask_state(), own, other),
        (IMAGE, one, two),
        (PLANAR, *(p.astype(np.float32) for p in planes)),
        (HALVES, *(p.astype(np.float16) for p in planes)),
    ]
    (mask, image, planar, halves), _ = paste(op, 3, given)
    w = soft_edge(other > 0, 2)[..., None] / 65536
    assert np.abs(image - (one * (1 - w) + two * w)).max() <= 0.5
    assert np.abs(planar.transpose(1, 2, 0) - (one * (1 - w) + two * w)).max() < 1e-3
    assert np.abs(halves.astype(np.float32) - planar).max() <= 0.07
    assert np.array_equal(mask > 0, (own > 0) | (other > 0)), "masks have sharp edges"
    assert ((w > 0) & (w < 1)).sum() > 100


def test_far_pixels_are_copied_and_nan_stays_where_it_is():
    weights = np.array([[0, 32768, 65536]])
    nan, one = np.float32([[[np.nan]] * 3]), np.ones((1, 3, 1), np.float32)
    assert np.isnan(blended(one, nan, weights)).ravel().tolist() == [False, True, True]
    assert np.isnan(blended(nan, one, weights)).ravel().tolist() == [True, True, False]


@pipeline
def train(sample):
    boxes = ops.track_visible(sample.boxes)
    image, mask, boxes = ops.copy_paste(
        sample.image, sample.mask, boxes, masks="instance", object_p=0.8
    )
    return {"image": image, "mask": mask, "boxes": boxes}


def test_in_a_batch_all_go_together():
    """The image shows each object's own level, which its box has as a label."""
    samples = []
    for number in range(8):
        mask, items = scene(number + 40)
        columns = unpack_items(FIELDS, items)
        levels = 30 * number + np.arange(9)
        samples.append(
            {
                "image": np.repeat(np.where(mask > 0, levels[mask.clip(0, 8)], 0)[..., None], 3, 2),
                "mask": mask,
                "boxes": {"xyxy": columns["xyxy"], "instance": columns["instance"]},
            }
        )
        samples[-1]["image"] = samples[-1]["image"].astype(np.uint8)
        samples[-1]["boxes"]["label"] = levels[columns["instance"]].astype(np.int32)
    more = 0
    for sample, row in zip(
        samples, train.batch(samples, seed=2, kinds={"mask": "mask"}), strict=True
    ):
        boxes = row["boxes"]
        for number, label in zip(boxes["instance"], boxes["label"], strict=True):
            assert (row["image"][row["mask"] == number] == label).all()
            assert (row["mask"] == number).any()
        assert set(np.unique(row["mask"]).tolist()) - {0} == set(boxes["instance"].tolist())
        more += len(boxes["xyxy"]) > len(sample["boxes"]["xyxy"])
    assert more > 2


STATES = {
    "image": IMAGE,
    "mask": mask_state(),
    "other": mask_state(),
    "boxes": BOXES,
    "unnumbered": State.ragged("boxes", FIELDS[::2], 9, "image"),
    "points": State.ragged("keypoints", (ItemField("xy", "float32", 2),), 9, "image"),
    "label": State.fixed("label", "int64", ()),
}


@pytest.mark.parametrize(
    ("names", "given", "message"),
    [
        (
            ("image",),
            {"masks": "instance"},
            "expected one mask, .* got image uint8.*return the mask",
        ),
        (("image", "mask", "other"), {"masks": "instance"}, "expected one mask"),
        (("mask", "boxes"), {"masks": "semantic"}, 'expected no boxes with masks="semantic"'),
        (
            ("mask", "unnumbered"),
            {"masks": "instance"},
            "integer field 'instance'.*--masks instance",
        ),
        (("mask", "points"), {"masks": "instance"}, "no rule for keypoints.*Leave it out"),
        (("mask", "label"), {"masks": "instance"}, "no rule for label.*Leave it out"),
    ],
)
def test_calls_that_cannot_be_joint_are_refused(names, given, message):
    def define(sample):
        values = ops.copy_paste(*(sample[name] for name in names), **given)
        return dict(zip(names, values if len(names) > 1 else [values], strict=True))

    with pytest.raises(BuildError, match=f"copy_paste.*{message}"):
        bind(pipeline(define).graph(), STATES)


def test_a_mask_that_is_not_returned_is_asked_for():
    def define(sample):
        image, _, boxes = ops.copy_paste(sample.image, sample.mask, sample.boxes, masks="instance")
        return {"image": image, "boxes": boxes}

    with pytest.raises(
        BuildError, match=r"among its values that are outputs, got .*return the mask"
    ):
        bind(pipeline(define).graph(), STATES)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (State.fixed("array", "uint8", SIZE), "If these are class numbers, keep the kind mask"),
        (State.fixed("array", "int32", (*SIZE, 3)), "for a soft edge"),
        (State("image", "uint8", (None, 9, 3), (9, 9, 3)), "values of one size"),
    ],
)
def test_states_without_a_rule_are_refused(state, message):
    with pytest.raises(StateError, match=f"copy_paste.*{message}"):
        CopyPaste("instance", sigma=1.0).mixed(state)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"masks": "instances"}, "expected masks to be one of instance, semantic, got 'instances'"),
        ({"masks": "semantic", "object_p": 2}, "expected object_p to be a number from 0 to 1"),
        ({"masks": "semantic", "min_visible": -1}, "expected min_visible to be a number"),
        ({"masks": "semantic", "ignore": "0"}, "expected ignore to be a class number"),
        ({"masks": "semantic", "sigma": 33}, "expected sigma to be a number from 0 to 32"),
        ({"masks": "semantic", "p": None}, "expected p to be a number from 0 to 1"),
    ],
)
def test_parameters_are_checked(given, message):
    with pytest.raises(ParameterError, match=f"copy_paste: {message}"):
        CopyPaste(**given)
    with pytest.raises(TypeError, match="masks"):
        ops.copy_paste()
