"""Pipelines that docs/guides/image-and-target.md promises to refuse."""

from refusals import refused

from stoker import ops
from stoker.pipeline import pipelines, sync_seed

PAGE = "docs/guides/image-and-target.md"
BOXES = "docs/guides/boxes.md"
LIST = "Mistakes that would train on wrong pairs are errors when the pipeline is built"


@refused(PAGE, "| mask | move it; take the nearest value", "color_jitter", "no rule for a mask")
def color_of_a_mask(sample):
    image, mask = ops.color_jitter(sample.image, sample.mask, brightness=0.2)
    return {"image": image, "mask": mask}


@refused(PAGE, "| boxes, keypoints | move and clip them", "invert", "no rule for boxes")
def color_of_boxes(sample):
    image, boxes = ops.invert(sample.image, sample.boxes)
    return {"image": image, "boxes": boxes}


@refused(PAGE, "| label, scalar | refuse it", "horizontal_flip", "no rule for a label")
def flip_of_a_label(sample):
    image, label = ops.horizontal_flip(sample.image, sample.label)
    return {"image": image, "label": label}


@refused(PAGE, "| label, scalar | refuse it", "brightness", "no rule for a scalar")
def color_of_a_scalar(sample):
    image, weight = ops.brightness(sample.image, sample.weight)
    return {"image": image, "weight": weight}


@refused(
    PAGE,
    "says what each op does, and which ops refuse",
    "random_crop on field 'image' and field 'small'",
    "decides in pixels",
)
def window_in_a_small_mask(sample):
    image, mask = ops.random_crop(sample.image, sample.small, size=16, relative=True)
    return {"image": image, "mask": mask}


two_instances = refused(
    PAGE,
    "That is an error when the pipeline is built",
    "random_crop moves output 'image', but not output 'mask'",
)(pipelines({"image": [ops.RandomCrop(16)], "mask": [ops.RandomCrop(16)]}))


@refused(PAGE, "an op that has no rule for a kind", "horizontal_flip", "no rule for a bytes")
def flip_of_bytes(sample):
    image, text = ops.horizontal_flip(sample.image, sample.text)
    return {"image": image, "text": text}


@refused(
    PAGE,
    "fields of different sizes under one decision",
    "one decision",
    "is applied to image uint8[32x32x3] and to mask uint8[16x16]",
    "relative=True",
)
def of_two_sizes(sample):
    image, mask = ops.horizontal_flip(sample.image, sample.small)
    return {"image": image, "mask": mask}


@refused(
    PAGE,
    "two calls of one op under one stream name or `sync_seed`",
    "the same stream name 'turn'",
    "degrees=(-3.0, 3.0) here and degrees=(-9.0, 9.0)",
)
def one_name_two_calls(sample):
    image = ops.rotate(sample.image, degrees=9, stream="turn")
    return {"image": image, "mask": ops.rotate(sample.mask, degrees=3, stream="turn")}


@refused(
    PAGE,
    "two calls of one op under one stream name or `sync_seed`",
    "the same stream name 'crop/random_crop'",
    "size=(8, 8) here and size=(16, 16)",
)
def one_mark_two_calls(sample):
    mark = sync_seed("crop")
    lists = {"image": [mark, ops.RandomCrop(16)], "mask": [mark, ops.RandomCrop(8)]}
    return pipelines(lists)(sample)


@refused(PAGE, LIST, "horizontal_flip moves output 'image', but not output 'mask'", "ops.unlinked(")
def mask_missed(sample):
    return {"image": ops.horizontal_flip(sample.image), "mask": sample.mask}


@refused(
    PAGE, "boxes or keypoints that missed an op", "random_crop moves output 'image'", "'boxes'"
)
def boxes_missed(sample):
    return {"image": ops.random_crop(sample.image, size=16), "boxes": sample.boxes}


@refused(PAGE, "boxes or keypoints that missed an op", "transpose moves output 'image'", "'points'")
def keypoints_missed(sample):
    return {"image": ops.transpose(sample.image), "points": sample.points}


@refused(PAGE, "or that took part in one which the image missed", "moves output 'mask', but not")
def image_missed(sample):
    return {"image": sample.image, "mask": ops.vertical_flip(sample.mask)}


@refused(PAGE, "Each value has a geometric history", "cutmix moves output 'image', but not output")
def mask_missed_a_batch_op(sample):
    return {"image": ops.cutmix(sample.image), "mask": sample.mask}


@refused(PAGE, "must have the history of some image among the outputs", "resize moves", "'mask'")
def mask_missed_what_workers_shorten(sample):
    image = ops.center_crop(ops.resize(sample.image, size=(24, 24)), size=16)
    return {"image": image, "mask": sample.mask}


@refused(
    PAGE,
    "an image of another field next to an image that moved",
    "horizontal_flip moves output 'noisy', but not output 'clean'",
)
def clean_image_missed(sample):
    return {"noisy": ops.horizontal_flip(sample.image), "clean": sample.clean}


@refused(PAGE, "an image of another field next to an image that moved", "not output 'depth'")
def depth_image_missed(sample):
    return {"image": ops.random_crop(sample.image, size=16), "depth": sample.depth}


@refused(
    PAGE,
    "or followed a drawn decision with it and then parted",
    "horizontal_flip moves output 'clean', but not output 'image'",
)
def images_parted(sample):
    image, clean = ops.random_crop(sample.image, sample.clean, size=16)
    image = ops.horizontal_flip(image, stream="one")
    return {"image": image, "clean": ops.horizontal_flip(clean, stream="other")}


@refused(PAGE, "an array next to an image that moved", "has the size of the image", "'heat'")
def map_missed(sample):
    return {"image": ops.horizontal_flip(sample.image), "heat": sample.heat}


@refused(PAGE, "or looks like boxes or keypoints by its name", 'schema.boxes("face_bbox")')
def array_of_a_box_missed(sample):
    return {"image": ops.horizontal_flip(sample.image), "face_bbox": sample.face_bbox}


@refused(PAGE, "or looks like boxes or keypoints by its name", 'schema.keypoints("landmarks")')
def array_of_points_missed(sample):
    return {"image": ops.resize(sample.image, size=(8, 8)), "landmarks": sample.landmarks}


@refused(BOXES, "mirrored without a swap are an error", "mirrors output 'points'", "'left_eye'")
def eyes_not_swapped(sample):
    image, points = ops.horizontal_flip(sample.image, sample.points)
    return {"image": image, "points": points}
