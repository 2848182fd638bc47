"""Targets that missed an op, or took part in one that the image missed, are refused."""

import numpy as np
import pytest

from stoker import ops
from stoker.ops import State
from stoker.pipeline import bind, one_of, pipeline, pipelines, random_apply, sync_seed
from stoker.pipeline.graph.graph import Graph
from stoker.protocol.errors import BuildError
from stoker.protocol.item_fields import ItemField

BOXES = (ItemField("xyxy", "float32", 4), ItemField("label", "int32"))
POINTS = (ItemField("xy", "float32", 2),)
FIELDS = {
    "image": State.fixed("image", "uint8", (64, 96, 3)),
    "other": State.fixed("image", "uint8", (64, 96, 3)),
    "mask": State.fixed("mask", "uint8", (64, 96)),
    "small": State.fixed("mask", "uint8", (32, 48)),
    "boxes": State.ragged("boxes", BOXES, 5, "image"),
    "points": State.ragged("keypoints", POINTS, 5, "image"),
    "flag": State.fixed("scalar", "bool", ()),
    "label": State.fixed("label", "int32", ()),
}


def built(define):
    return bind(pipeline(define).graph(), FIELDS)


def refused(define, *parts):
    with pytest.raises(BuildError) as caught:
        built(define)
    for part in (*parts, "ops.unlinked("):
        assert part in caught.value.message
    assert caught.value.message.count("test_history.py:") == 2
    return caught.value.message


flip, turn = ops.HorizontalFlip(), ops.Rotate(degrees=10)


@pytest.mark.parametrize(
    ("op", "define"),
    [
        ("resize", lambda s: {"image": ops.resize(s.image, size=(8, 8)), "boxes": s.boxes}),
        ("horizontal_flip", lambda s: {"image": flip(s.image), "mask": s.mask}),
        ("horizontal_flip", lambda s: {"image": flip(s.image), "points": s.points}),
        ("horizontal_flip", lambda s: {"image": s.image, "mask": flip(s.mask)}),
        ("resize", lambda s: {"image": ops.resize(s.image, size=(8, 8)), "mask": s.mask}),
        ("center_crop", lambda s: {"mask": s.mask, "image": ops.center_crop(s.image, size=8)}),
        ("elastic", lambda s: {"image": ops.elastic(s.image), "mask": s.mask}),
        ("cutmix", lambda s: {"image": ops.cutmix(s.image), "mask": s.mask}),
        ("mosaic", lambda s: {"image": ops.mosaic(s.image), "boxes": s.boxes}),
    ],
)
def test_a_target_that_missed_an_op(op, define):
    message = refused(define)
    assert f": {op} moves output" in message
    assert f"as in ops.{op}(image, " in message


def test_the_image_keeps_its_history_through_other_ops():
    def define(sample):
        image = ops.normalize(flip(ops.color_jitter(sample.image, brightness=0.2)), layout="CHW")
        return {
            "image": ops.cast(image, dtype="float16"),
            "hot": ops.one_hot(sample.mask, classes=3),
        }

    assert "horizontal_flip moves output 'image', but not output 'hot'" in refused(define)


def test_two_instances_decide_apart():
    def define(sample):
        return {
            "image": ops.rotate(sample.image, degrees=9, stream="a"),
            "mask": ops.rotate(sample.mask, degrees=9, stream="b"),
        }

    assert ": rotate moves output" in refused(define)


def test_a_branch_that_moves_one_of_them():
    def define(sample):
        image, mask = ops.resize(sample.image, sample.mask, size=(8, 8))
        if sample.flag:
            image = ops.vertical_flip(image, p=1.0)
        return {"image": image, "mask": mask}

    assert "vertical_flip moves output 'image', but not output 'mask'" in refused(define)


def test_a_forgotten_mask_in_one_of_two_branches():
    def define(sample):
        image, mask = sample.image, sample.mask
        if sample.flag:
            image, mask = flip(image, mask)
        else:
            image, mask = ops.vertical_flip(image, p=1.0), ops.unlinked(mask)
        return {"image": image, "mask": mask}

    built(define)

    def forgetful(sample):
        image, mask = sample.image, sample.mask
        if sample.flag:
            image, mask = flip(image, mask)
        else:
            image = ops.vertical_flip(image, p=1.0)
        return {"image": image, "mask": mask}

    assert "vertical_flip moves output" in refused(forgetful)


def same_stream(s):
    return {
        "image": ops.rotate(s.image, degrees=9, stream="r", interpolation="bilinear", fill=7),
        "mask": ops.rotate(s.mask, degrees=9, stream="r"),
    }


def jointly(s):
    image, mask, boxes, points = flip(s.image, s.mask, s.boxes, s.points)
    image, mask, boxes, points = ops.resize(image, mask, boxes, points, size=(9, 9))
    return {"image": image, "mask": mask, "boxes": boxes, "points": points}


def of_other_sizes(s):
    image, mask = ops.random_resized_crop(s.image, s.small, size=(32, 32), relative=True)
    return {"image": ops.resize(image, size=(8, 8)), "mask": ops.resize(mask, size=(4, 4))}


def in_branches(s):
    image, mask = s.image, s.mask
    if s.flag:
        image, mask = flip(image, mask)
    elif s.label == 2:
        image, mask = ops.vertical_flip(image, mask, p=1.0)
    return {"image": image, "mask": mask}


def by_policies(s):
    image, mask = random_apply(s.image, s.mask, apply=turn, p=0.3)
    image, mask = one_of(image, mask, choices=[ops.HorizontalFlip(), ops.Affine(degrees=5), None])
    return {"image": image, "mask": mask}


def views(s):
    weak, mask = flip(s.image, s.mask)
    return {"weak": weak, "strong": ops.elastic(weak), "mask": mask}


def of_two_images(s):
    left, boxes = ops.center_crop(s.image, s.boxes, size=(32, 32))
    return {"left": left, "right": ops.rotate(s.other, degrees=3), "boxes": boxes}


def erased(s):
    image = ops.gaussian_blur(ops.erase(s.image))
    return {"image": image, "mask": s.mask, "boxes": s.boxes}


def without_the_image(s):
    return {"mask": flip(s.mask), "boxes": s.boxes, "label": s.label}


def mixed(s):
    image, mask = ops.cutmix(s.image, s.mask)
    return {"image": ops.mixup(image), "mask": mask}


def on_purpose(s):
    boxes = ops.unlinked(s.boxes)
    return {"image": flip(s.image), "boxes": boxes, "mask": ops.unlinked(ops.vertical_flip(s.mask))}


@pytest.mark.parametrize(
    "define",
    [
        same_stream, jointly, of_other_sizes, in_branches, by_policies, views, of_two_images,
        erased, without_the_image, mixed, on_purpose,
    ],
)  # fmt: skip
def test_what_fits_is_built(define):
    built(define)


def test_lists_of_fields():
    joint = pipelines(
        {
            "image": [sync_seed("a"), ops.HorizontalFlip()],
            "mask": [sync_seed("a"), ops.HorizontalFlip()],
        }
    )
    bind(joint.graph(), FIELDS)
    with pytest.raises(BuildError, match="horizontal_flip moves output 'image', but not output"):
        bind(pipelines({"image": [ops.HorizontalFlip()], "mask": []}).graph(), FIELDS)
    bind(pipelines({"image": [ops.HorizontalFlip()], "mask": [ops.unlinked]}).graph(), FIELDS)


def test_the_mark_travels_and_is_no_part_of_the_identity():
    marked = pipeline(on_purpose).graph()
    again = Graph.from_data(marked.to_data())
    assert again.unlinked == ("boxes", "mask")
    bind(again, FIELDS)
    with pytest.raises(BuildError, match="unlinked: expected the name of an output, got 'box'"):
        Graph.from_data(marked.to_data() | {"unlinked": ["box"]})

    def plain(s):
        return {"image": flip(s.image), "boxes": s.boxes, "mask": ops.vertical_flip(s.mask)}

    assert pipeline(plain).pipeline_id == pipeline(on_purpose).pipeline_id
    assert "unlinked" not in marked.to_data(sites=False)


def test_the_check_agrees_with_the_pixels():
    """A mask painted into the image, through random calls: refused if and only if they part."""
    rng = np.random.default_rng(7)
    mask = np.zeros((64, 96), np.uint8)
    mask[10:30, 20:70] = 200
    sample = {"image": np.repeat(mask[..., None], 3, 2), "mask": mask}
    moving = [
        ops.HorizontalFlip(p=1.0), ops.VerticalFlip(p=1.0),
        ops.RandomCrop((64, 96), padding=4), ops.RandomCrop((64, 96), padding=9),
    ]  # fmt: skip
    seen = set()
    for case in range(60):
        count = rng.integers(1, 4)
        calls = [(moving[rng.integers(len(moving))], rng.integers(3)) for _ in range(count)]

        @pipeline
        def train(sample, calls=calls):
            image, mask = sample.image, sample.mask
            for op, who in calls:
                if who == 0:
                    image, mask = op(image, mask)
                elif who == 1:
                    image = op(image)
                else:
                    mask = op(mask)
            return {"image": image, "mask": mask}

        try:
            found = train(sample, id=case)
        except BuildError:
            parted = [who for _, who in calls if who]
            assert parted, calls
            seen.add("refused")
            continue
        assert np.array_equal(found["image"][..., 0], found["mask"]), calls
        seen.add("built")
    assert seen == {"refused", "built"}
