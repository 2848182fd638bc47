"""Pipelines that docs/ops.md and the guides promise to refuse: kinds and forms without a rule."""

from refusals import refused

from stoker import ops
from stoker.pipeline import outputs

OPS = "docs/ops.md"
SHAPES = "docs/guides/varying-shapes.md"
VECTORS = "docs/guides/flow-and-normals.md"


@refused(OPS, "All other ops refuse uint16 and name the remedy", "equalize", "to_float")
def levels_of_16_bits(sample):
    return {"image": ops.equalize(sample.wide)}


@refused(
    OPS,
    "Ops that expect levels or 0 to 1 refuse it",
    "the image was normalized: call brightness before normalize",
)
def brightness_of_normalized(sample):
    return {"image": ops.brightness(ops.normalize(sample.image), p=1.0)}


@refused(OPS, "Ops that count or look up the 256 levels refuse floats", "equalize", "float32")
def levels_of_floats(sample):
    return {"image": ops.equalize(sample.depth)}


@refused(OPS, "The other ops refuse a vector field by name", "elastic", "flow")
def elastic_flow(sample):
    image, flow = ops.elastic(sample.image, sample.flow)
    return {"image": image, "flow": flow}


@refused(VECTORS, "| `elastic`, `grid_distortion`", "grid_distortion", "flow")
def distorted_flow(sample):
    image, flow = ops.grid_distortion(sample.image, sample.flow)
    return {"image": image, "flow": flow}


@refused(VECTORS, "| ops of levels, holes and mixes", "erase", "flow")
def erased_flow(sample):
    image, flow = ops.erase(sample.image, sample.flow)
    return {"image": image, "flow": flow}


@refused(VECTORS, "rotated; `shear` is refused", "affine", "normals", "shear")
def sheared_normals(sample):
    image, normals = ops.affine(sample.image, sample.normals, degrees=0, shear=10)
    return {"image": image, "normals": normals}


@refused(VECTORS, "A flow that missed an op which moved its image", "horizontal_flip", "'flow'")
def missed_flow(sample):
    return {"image": ops.horizontal_flip(sample.image), "flow": sample.flow}


@refused(
    OPS,
    "| random_crop, center_crop, corner_crop",
    "random_crop on field 'image' and field 'small'",
    "decides in pixels",
)
def window_of_another_size(sample):
    image, mask = ops.random_crop(sample.image, sample.small, size=16, relative=True)
    return {"image": image, "mask": mask}


@refused(OPS, "A mask has no mean and is refused", "mixup", "mask")
def mixed_masks(sample):
    image, mask = ops.mixup(sample.image, sample.mask)
    return {"image": image, "mask": mask}


@refused(OPS, "a pasted box hides an unknown part of an object", "cutmix", "boxes")
def pasted_boxes(sample):
    image, boxes = ops.cutmix(sample.image, sample.boxes)
    return {"image": image, "boxes": boxes}


@refused(OPS, "A label of the whole image is refused", "mosaic", "label")
def label_of_a_mosaic(sample):
    image, label = ops.mosaic(sample.image, sample.label)
    return {"image": image, "label": label}


@refused(OPS, "anything else is a build error", "cast on label", "int64", "uint8")
def cast_that_loses(sample):
    return {"grade": ops.cast(sample.grade, dtype="uint8")}


@refused(OPS, "If the image may be larger than the frame", "pad_to_size", "32")
def frame_that_is_too_small(sample):
    return {"image": ops.pad_to_size(sample.image, size=(16, 16))}


@refused(OPS, "A single number is refused", "resize", "146")
def size_of_one_number(sample):
    return {"image": ops.resize(sample.image, size=146)}


@refused("docs/guides/boxes.md", "Boxes that missed an op", "horizontal_flip", "'boxes'")
def missed_boxes(sample):
    return {"image": ops.horizontal_flip(sample.image), "boxes": sample.boxes}


@refused(
    "docs/guides/coming-from-albumentations.md",
    "An op that has no rule for a kind",
    "rotate has no rule for a label",
)
def album(sample):
    image, label = ops.rotate(sample.image, sample.label, degrees=10)
    return {"image": image, "label": label}


@refused(
    "docs/guides/coming-from-torchvision.md",
    "**An op without a rule for a kind",
    "vertical_flip has no rule for a scalar",
)
def vision(sample):
    image, weight = ops.vertical_flip(sample.image, sample.weight)
    return {"image": image, "weight": weight}


@refused(
    "docs/guides/multi-crop.md",
    "Without a scope the second crop is refused",
    "random_crop' is taken by the call at",
)
def second_crop(sample):
    return {
        "large": ops.random_crop(sample.image, size=16),
        "small": ops.random_crop(sample.image, size=8),
    }


@refused(
    "docs/guides/randomness.md",
    "it could mean one decision for both calls",
    "brightness' is taken by the call at",
)
def one_name_for_two_calls(sample):
    return {"image": ops.brightness(ops.brightness(sample.image))}


@refused("docs/client.md", "whose output has a name of the batch's own", "'epoch'")
def output_named_epoch(sample):
    return {"epoch": sample.image}


@refused("docs/guides/varying-shapes.md", "rows of differing shape are refused", "outputs.pad")
def differing_rows(sample):
    return {"image": ops.rotate(sample.image, degrees=45, expand=True)}


@refused(
    "docs/guides/write-your-own-op.md",
    "A kind without a rule is refused",
    "transpose has no rule for a bytes",
)
def kind_without_a_rule(sample):
    image, text = ops.transpose(sample.image, sample.text)
    return {"image": image, "text": text}


@refused(OPS, "Boxes are refused.", 'expected no boxes with masks="semantic"')
def boxes_with_classes(sample):
    image, mask, boxes = ops.copy_paste(sample.image, sample.mask, sample.boxes, masks="semantic")
    return {"image": image, "mask": mask, "boxes": boxes}


@refused(OPS, "Keypoints and labels of the image are refused", "copy_paste", "keypoints")
def pasted_keypoints(sample):
    image, mask, points = ops.copy_paste(sample.image, sample.mask, sample.points, masks="semantic")
    return {"image": image, "mask": mask, "points": points}


@refused(
    OPS, "Arrays of other integers, and arrays of uint8", "mosaic_scaled", "keep the kind mask"
)
def scaled_numbers(sample):
    image, numbers = ops.mosaic(sample.image, sample.numbers, scale_range=(0.5, 1.5))
    return {"image": image, "numbers": numbers}


@refused(OPS, "If the ratios differ, the pipeline is refused", "rotate", "same ratio of height")
def two_ratios(sample):
    wide = ops.center_crop(sample.clean, size=(8, 16))
    image, other = ops.rotate(sample.image, wide, degrees=9, relative=True)
    return {"image": image, "other": other}


@refused(OPS, "Ops that make one value of several (`blend`, `stack`)", "stack", "relative=True")
def stack_of_two_sizes(sample):
    return {"views": ops.Stack()(sample.image, sample.clean, relative=True)}


@refused(SHAPES, "Padding to the longest row is refused in these cases", "batch ops cannot")
def padded_and_mixed(sample):
    image = ops.resize(sample.image, size=(16, 16))
    return {"image": ops.mixup(image), "words": outputs.pad(sample.words)}


@refused(SHAPES, "where a height or width differs from", "only the first two sides may differ")
def planes_of_one_height(sample):
    image = ops.random_short_side_scale(sample.image, sizes=(9, 12), max_size=40)
    return {"image": ops.normalize(image, layout="CHW")}


@refused(
    OPS,
    "Branches that give levels of 8 and of 16 bits cannot join",
    "branches cannot join",
    "uint16",
)
def levels_of_8_and_16_bits(sample):
    image = sample.image
    if sample.label == 1:
        image = sample.wide
    return {"image": image}


@refused(OPS, "| affine | shifts go to the nearest pixel", "affine", "same ratio of height")
def affine_of_another_ratio(sample):
    wide = ops.center_crop(sample.clean, size=(8, 16))
    image, other = ops.affine(sample.image, wide, degrees=9, relative=True)
    return {"image": image, "other": other}


@refused(OPS, "The call has one mask, which must be an output", "copy_paste", "one mask")
def pasted_without_a_mask(sample):
    return {"image": ops.copy_paste(sample.image, masks="semantic")}


@refused(SHAPES, "and such a pipeline is refused", "a condition that reads pixels (mean)")
def padded_by_brightness(sample):
    image = sample.image
    if image.mean() < 60:
        image = ops.resize(image, size=(64, 64))
    return {"image": outputs.pad(image)}


@refused(
    SHAPES,
    "Padding to the longest row is refused in these cases",
    "sizes must be known",
    "the number of remaining boxes",
)
def padded_by_a_count(sample):
    image, boxes = ops.random_crop(sample.image, sample.boxes, size=16)
    if boxes.count > 0:
        image = ops.resize(image, size=(8, 8))
    return {"image": outputs.pad(image)}


@refused(SHAPES, "of the cases above only batch ops are refused", "batch ops cannot")
def padded_to_the_bound_and_mixed(sample):
    image = ops.resize(sample.image, size=(16, 16))
    return {"image": ops.mixup(image), "words": outputs.pad(sample.words, to="bound")}


AFTER = "a call after another op is refused"


@refused(
    OPS,
    AFTER,
    'random_resized_crop with decode="scaled" reads the image from line',
    "expected a field of the sample",
)
def scaled_after_a_flip(sample):
    image = ops.horizontal_flip(sample.image)
    return {"image": ops.random_resized_crop(image, size=8, decode="scaled")}


@refused(OPS, AFTER, 'resize with decode="scaled" reads field', "output 'whole'")
def scaled_and_delivered(sample):
    return {
        "image": ops.resize(sample.image, size=(8, 8), decode="scaled"),
        "whole": sample.image,
    }


@refused(OPS, AFTER, "reads field 'image', whose pixels are also read by", "random_crop at")
def scaled_and_cropped(sample):
    small = ops.random_resized_crop(sample.image, size=8, decode="scaled")
    return {"image": small, "part": ops.random_crop(sample.image, size=8)}


@refused(OPS, AFTER, "reads field 'image', whose pixels are also read by", "an expression at")
def scaled_by_its_pixels(sample):
    image = ops.resize(sample.image, size=(8, 8), decode="scaled")
    if sample.image.mean() > 60:
        image = ops.invert(image, p=1.0)
    return {"image": image}


@refused(OPS, AFTER, "reads field 'image', which the call at", "only one call can have")
def scaled_twice(sample):
    return {
        "large": ops.random_resized_crop(sample.image, size=16, decode="scaled", stream="large"),
        "small": ops.random_resized_crop(sample.image, size=8, decode="scaled", stream="small"),
    }


NUMBERS = "Parameters that follow a schedule or the row are refused with it"


@refused(OPS, NUMBERS, 'random_resized_crop with decode="scaled": expected parameters')
def scaled_by_a_schedule(sample, ctx):
    low = 0.5 - 0.4 * ctx.progress
    image = ops.random_resized_crop(sample.image, size=8, scale=(low, 1.0), decode="scaled")
    return {"image": image}


@refused(OPS, NUMBERS, "expected interpolation to be a filter", 'decode="scaled"', "'nearest'")
def scaled_nearest(sample):
    image = ops.resize(sample.image, size=(8, 8), interpolation="nearest", decode="scaled")
    return {"image": image}
