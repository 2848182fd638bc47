"""Images of two fields, and arrays that belong to an image, are refused where they part."""

import pytest

from stoker import ops
from stoker.ops import State
from stoker.pipeline import bind, outputs, pipeline
from stoker.protocol.errors import BuildError

SIZE = (32, 48)
FIELDS = {
    "image": State.fixed("image", "uint8", (*SIZE, 3)),
    "clean": State.fixed("image", "uint8", (*SIZE, 3)),
    "depth": State.fixed("image", "float32", (*SIZE, 1)),
    "mask": State.fixed("mask", "uint8", SIZE),
    "heat": State.fixed("array", "float32", SIZE),
    "flow": State.fixed("array", "float32", (2, *SIZE)),
    "ids": State.fixed("array", "int64", SIZE),
    "bboxes": State("array", "float32", (None, 4), (7, 4)),
    "face_bbox": State.fixed("array", "float32", (4,)),
    "landmarks": State.fixed("array", "float32", (5, 2)),
    "table": State.fixed("array", "float32", (16, 4)),
    "vector": State.fixed("array", "float32", (48,)),
    "line": State.fixed("array", "float32", (48,)),
    "warm": State.fixed("array", "float32", SIZE),
    "label": State.fixed("label", "int64", ()),
    "free": State("image", "uint8", (None, None, 3), (*SIZE, 3)),
    "other": State("image", "uint8", (None, None, 3), (*SIZE, 3)),
}
flip = ops.HorizontalFlip()


def built(define):
    return bind(pipeline(define).graph(), FIELDS)


def crop(value, stream):
    return ops.random_crop(value, size=16, stream=stream)


def joint_then_one(s):
    image, clean = ops.random_crop(s.image, s.clean, size=16)
    return {"image": flip(image), "clean": clean}


def joint_then_apart(s):
    image, clean = flip(s.image, s.clean)
    return {"image": crop(image, "a"), "clean": crop(clean, "b")}


def free_sides(s):
    return {"x": crop(s.free, "a"), "other": outputs.as_list(s.other)}


def in_one_branch(s):
    image = s.image
    if s.label > 1:
        image = flip(image)
    return {"image": image, "clean": s.clean}


def missed_in_the_middle(s):
    image = ops.rotate(s.image, degrees=9)
    image, clean = flip(image, s.clean)
    return {"image": image, "clean": clean}


@pytest.mark.parametrize(
    ("op", "moved", "still", "define"),
    [
        ("horizontal_flip", "image", "clean", lambda s: {"image": flip(s.image), "clean": s.clean}),
        ("horizontal_flip", "clean", "image", lambda s: {"image": s.image, "clean": flip(s.clean)}),
        ("random_crop", "x", "depth", lambda s: {"x": crop(s.image, "a"), "depth": s.depth}),
        ("random_crop", "x", "other", free_sides),
        ("cutmix", "image", "clean", lambda s: {"image": ops.cutmix(s.image), "clean": s.clean}),
        ("horizontal_flip", "image", "clean", joint_then_one),
        ("random_crop", "clean", "image", joint_then_apart),
        ("horizontal_flip", "image", "clean", in_one_branch),
        ("rotate", "image", "clean", missed_in_the_middle),
    ],
)  # fmt: skip
def test_images_that_drifted_apart(op, moved, still, define):
    with pytest.raises(BuildError) as caught:
        built(define)
    message = caught.value.message
    assert f": {op} moves output {moved!r}, but not output {still!r} (from " in message
    assert f"as in ops.{op}({moved}, {still}), or deliver ops.unlinked({still})" in message
    assert message.count("test_apart.py:") == 2


@pytest.mark.parametrize(
    ("field", "like", "declared"),
    [
        ("heat", "has the size of the image", 'schema.image("heat", encoding="raw"'),
        ("flow", "has the size of the image", 'schema.image("flow", encoding="raw"'),
        ("ids", "has the size of the image", 'schema.mask("ids")'),
        ("bboxes", "looks like boxes", 'schema.boxes("bboxes")'),
        ("face_bbox", "looks like boxes", '{"xyxy": array}'),
        ("landmarks", "looks like keypoints", 'schema.keypoints("landmarks")'),
    ],
)  # fmt: skip
def test_arrays_that_cannot_follow(field, like, declared):
    def define(sample):
        array = sample[field]
        array = outputs.as_list(array) if field == "bboxes" else array
        return {"image": flip(sample.image), "target": array}

    with pytest.raises(BuildError) as caught:
        built(define)
    message = caught.value.message
    assert "horizontal_flip moves output 'image', but not output 'target' (from " in message
    for part in (like, declared, "ops.horizontal_flip(image, ", "ops.unlinked(target)"):
        assert part in message


@pytest.mark.parametrize(
    ("name", "shape", "like"),
    [
        ("gt_boxes", (3, 5), "boxes"),
        ("targetBoxes", (3, 4), "boxes"),
        ("roi", (4,), "boxes"),
        ("boxes", (3, 7), ""),
        ("box_scores", (3,), ""),
        ("heroism", (4,), ""),
        ("kpts", (17, 3), "keypoints"),
        ("landmarks", (10,), "keypoints"),
        ("polygons", (6, 2), "keypoints"),
        ("clicked_points", (3, 2), "keypoints"),
        ("points", (1024, 3), ""),
        ("joints", (21, 3), ""),
        ("words", (6, 2), ""),
    ],
)
def test_names_and_shapes_of_boxes_and_points(name, shape, like):
    fields = {"image": FIELDS["image"], name: State.fixed("array", "float32", shape)}
    graph = pipeline(lambda s: {"image": flip(s.image), "out": s[name]}).graph()
    if not like:
        bind(graph, fields)
        return
    with pytest.raises(BuildError, match=f"which looks like {like}, and would not fit it"):
        bind(graph, fields)


def test_an_array_of_two_fields():
    def define(sample):
        either = sample.vector if sample.label > 1 else sample.line
        return {"image": flip(sample.image), "either": either}

    built(define)

    def maps(sample):
        return {
            "image": flip(sample.image),
            "map": sample.heat if sample.label > 1 else sample.warm,
        }

    with pytest.raises(BuildError, match="field 'heat' is array"):
        built(maps)


def jointly(s):
    image, clean, depth = flip(s.image, s.clean, s.depth)
    return {"image": image, "clean": clean, "depth": depth, "gray": ops.to_gray(clean)}


def views_of_one(s):
    weak = flip(s.image)
    return {"weak": weak, "strong": ops.elastic(weak), "crop": crop(s.image, "a"), "as is": s.image}


def views_of_two(s):
    return {"left": crop(s.image, "a"), "right": crop(s.clean, "b")}


def views_and_a_target(s):
    weak, clean = flip(s.image, s.clean)
    return {"weak": weak, "strong": ops.elastic(weak), "clean": clean}


def next_to_the_original(s):
    return {"moved": flip(s.image), "original": s.image, "clean": s.clean, "heat": s.heat}


def only_resized(s):
    image = ops.resize(s.image, size=(8, 8))
    return {"image": image, "clean": s.clean, "heat": s.heat, "mask": ops.unlinked(s.mask)}


def only_colors(s):
    return {"image": ops.mixup(ops.invert(s.image)), "clean": s.clean, "heat": s.heat}


def without_the_size(s):
    return {"image": flip(s.image), "vector": s.vector, "table": s.table, "label": s.label}


def equal_by_accident(s):
    first, second = (ops.center_crop(one, size=16) for one in (s.image, s.clean))
    turned = ops.rotate(first, degrees=9, stream="a"), ops.rotate(second, degrees=9, stream="b")
    return dict(zip("ab", turned, strict=True))


def on_purpose(s):
    return {"image": flip(s.image), "clean": ops.unlinked(s.clean), "heat": ops.unlinked(s.heat)}


@pytest.mark.parametrize(
    "define",
    [
        jointly, views_of_one, views_of_two, views_and_a_target, next_to_the_original, only_resized,
        only_colors, without_the_size, equal_by_accident, on_purpose,
    ],
)  # fmt: skip
def test_what_fits_is_built(define):
    built(define)
