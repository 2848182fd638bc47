"""Pipelines that docs/pipelines.md and docs/guides/conditionals.md promise to refuse."""

import random
import secrets

import numpy as np
from refusals import refused

from stoker import ops
from stoker.pipeline import outputs

PAGE, GUIDE = "docs/pipelines.md", "docs/guides/conditionals.md"
ROWS = "docs/guides/parameters-of-each-row.md"
BY_LINE = "What cannot be decided for each sample is refused by line"
NOISE = np.random.default_rng(3)
STATEMENTS = "Some statements are refused, with their line and what to write instead"


@refused(
    PAGE,
    "Crops of 64 and of 32 pixels",
    "the same stream name 'crop' but other parameters",
    "size=(8, 8) here and size=(16, 16)",
)
def two_crops_of_one_name(sample):
    image = ops.random_crop(sample.image, size=16, stream="crop")
    return {"image": image, "mask": ops.random_crop(sample.mask, size=8, stream="crop")}


@refused(PAGE, "or two `scale` ranges", "random_resized_crop", "scale=(0.1, 1.0) here")
def two_scales_of_one_name(sample):
    crop = ops.random_resized_crop
    image = crop(sample.image, size=16, scale=(0.3, 1.0), stream="crop")
    return {"image": image, "mask": crop(sample.mask, size=16, scale=(0.1, 1.0), stream="crop")}


@refused(PAGE, "An op that has no rule for a kind refuses it", "one_hot", "no rule for an image")
def no_rule(sample):
    return {"hot": ops.one_hot(sample.image, classes=3)}


@refused(PAGE, "nothing is ever passed through silently", "equalize", "no rule for a mask")
def no_rule_and_no_use(sample):
    ops.equalize(sample.mask)
    return {"image": sample.image}


@refused(
    PAGE, "Without a name the second call is refused", "the default stream name 'horizontal_fl"
)
def ambiguous(sample):
    image = ops.horizontal_flip(sample.image)
    return {"image": ops.horizontal_flip(image)}


@refused(
    PAGE,
    "Values that cannot be joined, such as an image and a mask",
    "the branches cannot join: mask",
    "and image",
    "give both branches the same kind",
)
def image_or_mask(sample):
    value = sample.image
    if sample.label > 1:
        value = sample.mask
    return {"value": value}


@refused(PAGE, BY_LINE, "while")
def while_on_a_value(sample):
    image = sample.image
    while image.mean() > 100:
        image = ops.invert(image)
    return {"image": image}


@refused(
    PAGE,
    "`break` and `continue` inside such an `if`",
    "an `if` on the result of 'eq'",
    "contains break, con",
)
def break_on_a_value(sample):
    image = sample.image
    for number in range(3):
        if sample.label == number:
            break
        image = ops.invert(image, stream=f"{number}")
    return {"image": image}


@refused(PAGE, "a `return` out of a loop", "an `if` on the result of 'eq'", "contains break, con")
def return_out_of_a_loop(sample):
    for number in range(3):
        if sample.label == number:
            return {"image": ops.invert(sample.image)}
    return {"image": sample.image}


@refused(
    PAGE,
    "a branch that changes a dict, list or object from outside of it",
    "a branch on the result of 'eq'",
    "changes 'found' in place",
)
def changes_a_list(sample):
    found = []
    if sample.label == 2:
        found.append(sample.image)
    return {"image": sample.image, "count": len(found) + sample.label}


@refused(
    PAGE,
    "branches that return other fields",
    "a dict of 'image', 'mask' and a dict of 'image', which cannot join",
)
def other_fields(sample):
    if sample.label == 2:
        return {"image": sample.image, "mask": sample.mask}
    return {"image": sample.image}


@refused(
    ROWS,
    "size of the result (`size`, `padding`) must be a constant",
    "center_crop: parameter 'size' differs from sample to sample",
    "it decides the size of the result, and memory is laid out before the first row",
)
def size_of_a_field(sample):
    return {"image": ops.center_crop(sample.image, size=sample.grade)}


@refused(
    ROWS,
    "So a float is refused when the pipeline is built, and the error names the remedy",
    "crop: parameter 'top': expected an integer from -65535 to 65535 of each sample",
    "Round it in a function that returns int32: ops.python(function, sample.weight, dtype='int32'",
)
def top_of_a_float(sample):
    return {"image": ops.crop(sample.image, size=9, top=sample.weight, left=0)}


@refused(
    ROWS,
    "Other parameters take constants, and a value of a row is refused",
    "mixup: parameter 'alpha' differs from sample to sample",
    "the op mixes finished rows",
)
def alpha_of_a_field(sample):
    return {"image": ops.mixup(sample.image, alpha=sample.weight)}


@refused(
    ROWS,
    "to its batch cannot depend on such a parameter",
    "output 'image' is padded to the longest row of its batch",
    "whose p each sample gives",
)
def padded_by_a_chance(sample):
    image = ops.random_short_side_scale(sample.image, sizes=(8, 9), max_size=9)
    return {"image": outputs.pad(ops.transpose(image, p=sample.weight))}


@refused(
    ROWS,
    "so a mask that followed another number is refused",
    ": crop moves output 'image', but not output 'mask'",
)
def two_places(sample):
    image = ops.crop(sample.image, size=9, top=sample.label, left=0)
    return {"image": image, "mask": ops.crop(sample.mask, size=9, top=sample.grade, left=0)}


@refused(
    PAGE,
    "A parameter that decides sizes or memory is refused",
    "center_crop",
    "decides the size",
    "cannot follow a schedule",
)
def scheduled_size(sample, ctx):
    return {"image": ops.center_crop(sample.image, size=8 + ctx.epoch)}


@refused(GUIDE, "a name that it does not have is an error", "'catt'", "did you mean 'cat'?")
def unknown_class(sample):
    return {"image": ops.invert(sample.image) if sample.label == "catt" else sample.image}


@refused(GUIDE, "`match` is refused with its line", "match")
def matched(sample):
    image = sample.image
    match sample.label:
        case 1:
            image = ops.invert(image)
    return {"image": image}


@refused(
    GUIDE,
    "Values that cannot be joined are refused",
    *("uint8[32x32x1] from to_gray at ", "float32[32x32x3] from to_float at ", "shapes differ"),
)
def colors_or_gray(sample):
    image = ops.to_gray(sample.image) if sample.label else ops.to_float(sample.image)
    return {"image": image}


@refused(GUIDE, STATEMENTS, "while")
def while_on_a_count(sample):
    boxes, image = sample.boxes, sample.image
    while boxes.count > 2:
        image, boxes = ops.iou_crop(image, boxes)
    return {"image": image, "boxes": boxes}


@refused(GUIDE, "such a draw is refused, with its line", "draws from random", "ctx.uniform")
def drawn_by_python(sample):
    return {"image": ops.rotate(sample.image, degrees=random.uniform(1, 9))}


@refused(GUIDE, "such a draw is refused, with its line", "draws from numpy.random", "ctx.integer")
def drawn_by_numpy(sample):
    image = sample.image
    return {"image": ops.invert(image, p=1.0) if np.random.rand() < 0.5 else image}


@refused(PAGE, "or a generator that its code reaches", "draws from a Generator", "one constant")
def drawn_by_a_generator(sample):
    return {"image": ops.rotate(sample.image, degrees=NOISE.uniform(1, 9))}


@refused(PAGE, "a clock or entropy that gives another pipeline each time", "randbits")
def drawn_from_entropy(sample):
    return {"image": ops.rotate(sample.image, degrees=secrets.randbits(16) / 65536)}


@refused(GUIDE, "A direct change is refused, with its line", "changes 'made' in place")
def changed_directly(sample):
    made = {"image": sample.image, "kind": 0}
    if sample.label == 2:
        made["kind"] = 1
    return made


@refused(GUIDE, "(`uint8 + 300`) is refused", "300 does not fit uint8", "ops.cast")
def too_large_a_number(sample):
    return {"x": ops.one_hot(sample.label, classes=4, dtype="uint8") + 300}


@refused(GUIDE, "so `if array > 3:` is refused", "ambiguous", ".any()")
def truth_of_an_array(sample):
    return {"x": 1 if sample.numbers > 3 else 0}


@refused(
    GUIDE,
    "is refused when the pipeline is built, if the index and the side",
    "index 4",
    "4 elements",
)
def index_out_of_bounds(sample):
    return {"x": sample.face_bbox[4]}


@refused(GUIDE, "so the pipeline is refused with the line", "a slice", "ops.python")
def slice_of_an_array(sample):
    return {"x": sample.face_bbox[1:3]}
