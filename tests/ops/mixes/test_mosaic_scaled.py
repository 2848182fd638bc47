"""mosaic_scaled: against OpenCV, exact where nothing is scaled, joint, and mistakes."""

import cv2
import numpy as np
import pytest

from stoker import ops
from stoker.jit.arithmetic import COMPILED, PLAIN
from stoker.ops import MosaicScaled, ParameterError, State, StateError
from stoker.ops.bases.batch_op import Mixed
from stoker.ops.kernels.means import Tools
from stoker.pipeline import pipeline
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items

SIZE = (60, 88)
IMAGE = State.fixed("image", "uint8", (*SIZE, 3))
FLOATS = State.fixed("image", "float32", (*SIZE, 3))
PLANAR = State.fixed("array", "float32", (3, *SIZE))
HALVES = State.fixed("array", "float16", (3, *SIZE))
MASK = State.fixed("mask", "uint16", SIZE)
BOXES = State.ragged("boxes", (ItemField("xyxy", "float32", 4), ItemField("label", "int32")), 3)
POINTS = State.ragged("keypoints", (ItemField("xy", "float32", 2),), 3)
PLAIN_TOOLS = Tools(arithmetic=PLAIN)


def resolved(op, number, **changes):
    """A record of the op, drawn and resolved, with some fields set before."""
    record = np.zeros(1, op.record)
    for name, value in {**op.sample(0, 0, id=number), **changes}.items():
        record[name] = value
    op.resolve(record, SIZE, [7, 8, 9])
    return record[0]


def mixed(op, state, sources, record, tools=PLAIN_TOOLS):
    dst = np.full(op.mixed(state).bound, 77, state.dtype)
    count = op.mix(Mixed(state, sources, dst), record, tools)
    return dst[:count] if state.items else dst


def smooth(seed):
    """Four images without sharp edges, so that a fraction of a pixel changes little."""
    noise = np.random.default_rng(seed).integers(0, 256, (4, *SIZE, 3)).astype(np.uint8)
    return [cv2.GaussianBlur(image, (0, 0), 5) for image in noise]


def placed(record):
    """For each part: its slices, and the matrix from places of its image to places in the part."""
    (height, width), top, left = SIZE, int(record["top"]), int(record["left"])
    for k, s in enumerate(record["scales"]):
        rows, tall = (slice(0, top), top) if k < 2 else (slice(top, height), height - top)
        columns, wide = (slice(0, left), left) if k % 2 == 0 else (slice(left, width), width - left)
        right, down = (wide - s * width) * (k % 2 == 0), (tall - s * height) * (k < 2)
        yield rows, columns, np.array([[s, 0, right], [0, s, down]])


@pytest.mark.parametrize("arithmetic", [PLAIN, COMPILED])
def test_images_are_those_of_opencv(arithmetic):
    """OpenCV counts from the middle of pixel 0, and mixes the fill into the edge."""
    op, tools = MosaicScaled(fill=(3, 2, 1)), Tools(arithmetic=arithmetic)
    compared = 0
    for number in range(12):
        record, images = resolved(op, number), smooth(number)
        got = mixed(op, IMAGE, images, record, tools)
        for image, (rows, columns, matrix) in zip(images, placed(record), strict=True):
            part = got[rows, columns]
            centers = matrix.copy()
            centers[:, 2] += 0.5 * matrix[:, :2].sum(1) - 0.5
            flags, size = cv2.INTER_LINEAR, part.shape[1::-1]
            theirs = cv2.warpAffine(image, centers, size, flags=flags, borderValue=(3, 2, 1))
            whole = np.full(SIZE, 255, np.uint8)
            sure = cv2.warpAffine(whole, centers, size, flags=flags) == 255
            assert np.abs(part.astype(int) - theirs)[sure].max(initial=0) <= 3
            outside = cv2.warpAffine(whole, centers, size, flags=flags) == 0
            assert (part[outside] == (3, 2, 1)).all()
            compared += int(sure.sum())
    assert compared > 20_000


def test_a_factor_of_1_is_mosaic():
    """The same draws, so that under one stream name the same center and tiles."""
    scaled, plain = MosaicScaled(scale_range=(1, 1)), ops.Mosaic()
    noise = np.random.default_rng(1)
    for number in range(6):
        record = resolved(scaled, number)
        drawn = scaled.sample(0, 0, id=number, stream="m")
        alike = plain.sample(0, 0, id=number, stream="m")
        assert {name: drawn[name] for name in alike} == alike
        other = np.zeros(1, plain.record)
        for name in plain.record.names:
            other[name] = record[name]
        for state in (IMAGE, FLOATS, PLANAR, HALVES, MASK):
            values = noise.integers(0, 256, (4, *state.bound)).astype(state.dtype)
            given = mixed(scaled, state, list(values), record)
            assert np.array_equal(given, mixed(plain, state, list(values), other[0]))


def test_layouts_and_dtypes_give_the_same_pixels():
    op, images = MosaicScaled(fill=(3, 2, 1)), smooth(3)
    record = resolved(op, 5)
    levels = mixed(op, IMAGE, images, record)
    floats = mixed(op, FLOATS, [i.astype(np.float32) for i in images], record)
    assert np.abs(floats - levels).max() <= 0.5 + 1e-4
    planes = [np.ascontiguousarray(i.transpose(2, 0, 1)) for i in images]
    planar = mixed(op, PLANAR, [p.astype(np.float32) for p in planes], record)
    assert np.array_equal(planar, floats.transpose(2, 0, 1))
    halves = mixed(op, HALVES, [p.astype(np.float16) for p in planes], record)
    assert np.array_equal(halves, planar.astype(np.float16))


def test_both_engines_give_the_same_bytes():
    fast, noise = Tools(arithmetic=COMPILED), np.random.default_rng(2)
    op = MosaicScaled((0, 1), (1 / 16, 5), fill=7, mask_fill=65535)
    for number in range(8):
        record = resolved(op, number)
        for state in (IMAGE, FLOATS, PLANAR, HALVES, MASK):
            values = list(noise.integers(0, 256, (4, *state.bound)).astype(state.dtype))
            if state.dtype == "float32":
                values[1].flat[::7] = np.nan
                values[2].flat[::5] = np.inf
            one, other = (mixed(op, state, values, record, t) for t in (fast, PLAIN_TOOLS))
            assert one.tobytes() == other.tobytes(), state


def test_boxes_and_keypoints_are_where_the_mask_is():
    """Each box is painted into its mask; it is around what is seen of it, to half a pixel."""
    op, noise, lost, seen_boxes = MosaicScaled(mask_fill=0), np.random.default_rng(4), 0, 0
    for number in range(60):
        record = resolved(op, number)
        masks, boxes, points = [], [], []
        for tile in range(4):
            at = np.sort(noise.integers(0, SIZE[0], (2, 2)), 0)
            x0, y0, x1, y1 = *at[0], *(at[1] + 6)
            x1, y1 = min(x1, SIZE[1]), min(y1, SIZE[0])
            mask = np.zeros(SIZE, np.uint16)
            mask[y0:y1, x0:x1] = tile + 1
            masks.append(mask)
            corners = np.array([[x0, y0, x1, y1]], np.float32)
            boxes.append(pack_items(BOXES.items, {"xyxy": corners, "label": np.int32([tile + 1])}))
            middle = {"xy": (corners[:, :2] + corners[:, 2:]) / 2}
            points.append(pack_items(POINTS.items, middle))
        mask = mixed(op, MASK, masks, record)
        found = unpack_items(BOXES.items, mixed(op, BOXES, boxes, record))
        places = dict(zip(found["label"].tolist(), found["xyxy"], strict=True))
        for label in range(1, 5):
            ys, xs = np.nonzero(mask == label)
            if not len(ys):
                lost += 1
                thin = places.get(label, np.zeros(4, np.float32))
                assert min(thin[2] - thin[0], thin[3] - thin[1]) <= 1
                continue
            round_it = [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
            assert np.abs(places[label] - round_it).max() <= 0.5 + 1e-3, (number, label)
            seen_boxes += 1
        for x, y in unpack_items(POINTS.items, mixed(op, POINTS, points, record))["xy"]:
            cell = mask[min(int(y), SIZE[0] - 1), min(int(x), SIZE[1] - 1)]
            assert cell > 0 or 0 in (SIZE[0] - y, SIZE[1] - x)
    assert lost > 5
    assert seen_boxes > 120


def test_workers_compile_with_a_record_that_was_never_drawn():
    """The mixer loads machine code before the first row: center and factors are 0 there."""
    record = np.zeros(1, MosaicScaled.record)
    MosaicScaled().resolve(record, SIZE, [0, 0, 0])
    mixed(MosaicScaled(), IMAGE, [np.zeros(IMAGE.bound, np.uint8)] * 4, record[0])


def test_factors_are_uniform_and_the_images_own():
    drawn = np.array([MosaicScaled().sample(0, 0, id=k)["scales"] for k in range(1500)])
    assert drawn.min() > 0.5
    assert drawn.max() < 1.5
    assert abs(drawn.mean() - 1) < 0.02
    assert np.abs(np.corrcoef(drawn.T) - np.eye(4)).max() < 0.1


def test_in_a_batch_image_mask_and_boxes_go_together(noise):
    """With `ops.mosaic(scale_range=...)`, in process; the record names the factors."""

    @pipeline
    def train(sample):
        image, mask, boxes = ops.mosaic(
            sample.image, sample.mask, sample.boxes, scale_range=(0.5, 0.7), fill=114, mask_fill=255
        )
        return {"image": image, "mask": mask, "boxes": boxes}

    samples = [
        {
            "image": np.full((40, 40, 3), 10 * k, np.uint8),
            "mask": np.full((40, 40), k, np.uint8),
            "boxes": {"xyxy": [[0, 0, 40, 40]], "label": [k]},
        }
        for k in range(6)
    ]
    for row in train.batch(samples, seed=3):
        filled = row["mask"] == 255
        assert filled.any(), "images of at most 0.7 leave a border"
        assert (row["image"][filled] == 114).all()
        assert (row["image"][~filled] == 10 * row["mask"][~filled][:, None]).all()
        assert len(row["boxes"]["xyxy"]) == 4
        areas = np.prod(row["boxes"]["xyxy"][:, 2:] - row["boxes"]["xyxy"][:, :2], 1)
        assert areas.sum() == pytest.approx((~filled).sum(), rel=0.1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scale_range": (0.01, 1)}, r"mosaic_scaled: expected scale_range to be \(low, high\)"),
        ({"scale_range": 1.5}, r"mosaic_scaled: expected scale_range to be \(low, high\)"),
        ({"fill": 114}, "mosaic: expected fill and mask_fill only with scale_range"),
        ({"mask_fill": 1}, "mosaic: expected fill and mask_fill only with scale_range"),
        ({"scale_range": (1, 2), "center_range": (0.8, 0.2)}, "mosaic_scaled: .*center_range"),
        ({"scale_range": (1, 2), "p": 2}, "mosaic_scaled: expected p to be a number"),
    ],
)
def test_parameters_are_checked(given, message):
    with pytest.raises(ParameterError, match=message):
        ops.mosaic(**given)


@pytest.mark.parametrize(
    ("op", "state", "message"),
    [
        (MosaicScaled(), State.fixed("array", "int32", (9, 9, 3)), "keep the kind mask"),
        (MosaicScaled(), State.fixed("array", "uint8", (9, 9)), "If these are class numbers"),
        (MosaicScaled(), State.fixed("image", "float64", (9, 9, 3)), "uint8, float16, float32"),
        (MosaicScaled(fill=0.5), IMAGE, "expected fill to be integers from 0 to 255"),
        (MosaicScaled(fill=0.5), State.fixed("array", "uint8", (3, 9, 9)), "fill to be integers"),
        (MosaicScaled(fill=(1, 2)), IMAGE, "one level or one for each channel"),
        (MosaicScaled(fill=(1, 2)), PLANAR, "one level or one for each channel"),
        (MosaicScaled(mask_fill=-1), MASK, "expected mask_fill from 0 to 65535"),
        (MosaicScaled(), State.fixed("label", "int64", ()), "one label or number cannot describe"),
        (MosaicScaled(), State("image", "uint8", (None, 9, 3), (9, 9, 3)), "values of one size"),
    ],
)
def test_states_without_a_rule_are_refused(op, state, message):
    with pytest.raises(StateError, match=f"mosaic_scaled.*{message}"):
        op.mixed(state)
