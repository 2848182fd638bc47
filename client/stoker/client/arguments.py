"""The types of a Loader's arguments, for type checkers and editors; nothing here runs.

`Loader.__init__` declares the same names, types and defaults; a test compares them. The checks of
values are in `options`. `as_tuple` and `as_dict` are not here: they decide what a loop receives.
"""

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Required, TypedDict

from stoker.client.batches.batch import Batch
from stoker.protocol.buckets import Buckets
from stoker.protocol.lengths import LengthBuckets

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # every type checker has it; Python has it from 3.13

    Item = TypeVar("Item", default=Batch)
else:
    from typing import TypeVar

    Item = TypeVar("Item")
"""The type of a loop's items: `Loader` alone, as an annotation, is `Loader[Batch]`."""


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
    prefetch: int | None
    group: str | None
    group_size: int | None
    mode: str | None
    on_error: str
    exclude: str | os.PathLike[str] | Iterable[int] | None
    subset: str | os.PathLike[str] | Iterable[int] | None
    views: int
    freeze: Mapping[str, int | str] | None
    total_epochs: int | None
    workers: int | None
    as_numpy: bool
    buckets: Buckets | LengthBuckets | None
    params: bool
    connect_timeout_s: float
    timeout_s: float
    reconnect_s: float | None
    verify: bool
    key: str | os.PathLike[str] | None
    daemon_key: str | os.PathLike[str] | None


class LoaderArguments(EvaluationArguments, total=False):
    """Keyword arguments of `Loader`, with the arguments for the order and for the last batch."""

    mix: Mapping[str, float] | None
    shuffle: bool
    shuffle_seed: int | None
    shuffle_block_size: int | None
    drop_last: bool
    last: str | None
    weights: object
