"""Calls as users write them, for a type checker: a line with `# error: TEXT` must be refused so.

Read by test_types.py; nothing here runs.
"""

from collections.abc import Iterator
from typing import Any, assert_type

from stoker.client import Batch, Loader


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
