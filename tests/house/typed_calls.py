"""Calls as users write them, for a type checker: a line with `# error: TEXT` must be refused so.

Read by test_types.py; nothing here runs.
"""

from collections.abc import Iterator
from typing import Any, assert_type

from stoker import ops
from stoker.client import Batch, Loader
from stoker.pipeline import pipeline
from stoker.pipeline.tracing.values import TracedValue


def takes_a_loader(loader: Loader) -> None:
    for batch in loader:
        assert_type(batch, Batch)


def loops() -> None:
    loader = Loader("packed", pipeline="train", batch_size=64, subset=[1, 2], exclude="bad.txt")
    takes_a_loader(loader)
    iterator: Iterator[Batch] = iter(loader)
    batch = next(iterator)
    assert_type(batch.epoch, int)
    assert_type(batch.to("cpu"), Batch)
    assert_type(type(batch)(dict(batch)), Batch)
    with Loader("packed", pipeline="train", batch_size=64) as opened:
        assert_type(opened, Loader[Batch])


def loops_over_parts() -> None:
    for image, label in Loader("packed", pipeline="train", as_tuple=("image", "label")):
        assert_type((image, label), tuple[Any, Any])
    for entries in Loader("packed", pipeline="train", as_dict=("image", "label")):
        assert_type(entries, dict[str, Any])
    for entries in Loader.for_evaluation("packed", pipeline="val", as_dict=True):
        assert_type(entries, dict[str, Any])
    for batch in Loader.for_evaluation("packed", pipeline="val", batch_size=64):
        assert_type(batch, Batch)


def mistakes() -> None:
    Loader("packed", pipeline="train", sed=0)  # error: Unexpected keyword argument "sed"
    Loader("packed", pipeline="train", batch_size="64")  # error: argument types "str", "str", "str"
    Loader("packed", pipeline="train", num_workers=4)  # error: argument "num_workers"
    Loader("packed", batch_size=64)  # error: No overload variant
    Loader("packed", pipeline="train", as_tuple=("image",), as_dict=True)  # error: No overload
    Loader.for_evaluation("packed", pipeline="val", shuffle=True)  # error: argument "shuffle"


@pipeline
def train(sample: Any) -> dict[str, TracedValue]:
    image, mask = ops.horizontal_flip(sample.image, sample.mask, p=0.5)
    assert_type(image, TracedValue)
    assert_type(ops.random_crop(image, mask, size=64), tuple[TracedValue, TracedValue])
    assert_type(ops.random_crop(image, size=64), TracedValue)
    assert_type(ops.hue(image, mask, image), tuple[TracedValue, ...])
    assert_type(ops.hue(*[image, mask]), tuple[TracedValue, ...])
    assert_type(ops.blend(image, image, weights=(0.5, 0.5)), TracedValue)
    if image.height > 64 and image.mean() < 0.5:
        image = ops.normalize(image, layout="CHW")
    return {"image": image, "mask": mask}


def mistakes_in_a_pipeline(image: TracedValue, mask: TracedValue) -> None:
    ops.horizontal_flip(image, prob=0.5)  # error: Unexpected keyword argument "prob"
    ops.random_crop(image, size="64")  # error: No overload variant
    ops.horizontal_flip()  # error: require at least one argument
    _one, _two, _three = ops.horizontal_flip(image, mask)  # error: Need more than 2 values
    ops.hue(ops.horizontal_flip(image, mask))  # error: No overload variant
