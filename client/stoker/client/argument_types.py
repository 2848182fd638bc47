"""The types of a Loader's arguments, for type checkers and editors; nothing here runs.

`Loader.__init__` declares the same names, types and defaults; a test compares them. The checks of
values are in `options`. `as_tuple` and `as_dict` are not here: they decide what a loop receives.
"""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Required, TypedDict

from stoker.client.batches.batch import Batch
from stoker.client.device_modules import Modules
from stoker.client.options.argument_records import Connection, Group, Shuffle
from stoker.protocol.length_buckets import LengthBuckets
from stoker.protocol.size_buckets import Buckets

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # every type checker has it; Python has it from 3.13

    Item = TypeVar("Item", default=Batch)
else:
    from typing import TypeVar

    Item = TypeVar("Item")
"""The type of a loop's items: `Loader` alone, as an annotation, is `Loader[Batch]`."""


Samples = str | os.PathLike[str] | Iterable[int]
"""Samples of a dataset: a split, the path of a file of ids, or ids."""


class EvaluationArguments(TypedDict, total=False):
    """Keyword arguments of `Loader.for_evaluation`."""

    dataset: str | None
    pipeline: Required[object]
    batch_size: int | None
    global_batch_size: int | None
    seed: int
    rank: int | None
    world_size: int | None
    device: object
    on_device: Modules | None
    prefetch: int | None
    group: str | Group | None
    on_error: str
    exclude: Samples | Mapping[str, Samples] | None
    subset: Samples | Mapping[str, Samples] | None
    views: int
    freeze: Mapping[str, int | str] | None
    total_epochs: int | None
    workers: int | None
    buckets: Buckets | LengthBuckets | None
    params: bool
    verify: bool
    name: str | None
    connection: Connection | None


class LoaderArguments(EvaluationArguments, total=False):
    """Keyword arguments of `Loader`, with the arguments for the order and for the last batch."""

    mix: Mapping[str, float] | None
    shuffle: bool | Shuffle
    drop_last: bool
    last: str | None
    weights: object
