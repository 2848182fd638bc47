"""Check the caller's arguments and build the OPEN record.

Everything that can be rejected without the daemon is rejected here, with messages that name the
parameters of `Loader`; the daemon judges the rest (names, fields, memory).
"""

import dataclasses
import itertools
import math
import numbers
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

from stoker.client.checks import flag, name_of, one_of, within
from stoker.client.progress import is_shown
from stoker.protocol.buckets import Buckets
from stoker.protocol.canonical import canonical_bytes
from stoker.protocol.codec import MAX_MESSAGE_BYTES
from stoker.protocol.errors import UsageError
from stoker.protocol.exclude import Excluded, read_ids
from stoker.protocol.lengths import LengthBuckets
from stoker.protocol.messages import Open
from stoker.protocol.mix import Component, mix_to_bytes
from stoker.protocol.spec import MAX_BATCH, MAX_ROWS, MAX_SEED, MAX_VIEWS
from stoker.protocol.splits import is_split_name, split_to_bytes
from stoker.protocol.subset import Subset
from stoker.protocol.weights import weights_of

OPEN_REQUEST = 1
"""Request number of OPEN; later requests count up from it."""
MAX_GRAPH_BYTES = 2**20
SLAB_BYTES = 2**29
"""Memory of a stream, within which the daemon chooses how many batches to prefetch."""
MOST_CHOSEN = 16
"""The most that it chooses: more hides no more slow rows. Older daemons take this number."""
MAX_DEPTH = 4096
MOST_MEMBERS = 64
MOST_GIVEN = 2**24
"""Values that an iterator may give: as many as weights, and more than ids."""
OTHER_BYTES = 2**16
"""Room in the message for all other arguments, of which `freeze` is the longest."""
_NOT_MIXED = ("dataset", "buckets", "exclude", "subset", "weights", "shuffle_block_size", "params")
_MODES = ("mirror", "fork")
_ON_ERROR = ("raise", "replace", "mask")


@dataclasses.dataclass(frozen=True)
class LoaderOptions:
    """The arguments that decide the stream; the attributes are `Loader`'s parameters, and the job.

    Attributes:
        job: the key of the job whose ranks open the same stream, or empty.
    """

    dataset: str | None
    pipeline: object
    batch_size: int | None
    global_batch_size: int | None
    seed: int
    shuffle: bool
    last: str
    rank: int
    world_size: int
    prefetch: int | None
    group: str | None
    on_error: str
    views: int
    freeze: Mapping[str, int | str] | None
    total_epochs: int | None
    params: bool = False
    buckets: Buckets | LengthBuckets | None = None
    exclude: str | os.PathLike[str] | Iterable[int] | None = None
    subset: str | os.PathLike[str] | Iterable[int] | None = None
    verify: bool = False
    weights: object = None
    shuffle_block_size: int | None = None
    mix: Mapping[str, float] | None = None
    group_size: int | None = None
    shuffle_seed: int | None = None
    mode: str | None = None
    job: bytes = b""

    def __post_init__(self) -> None:
        """Read iterators once, since a loader looks at its arguments more than once."""
        for name in ("exclude", "subset", "weights"):
            given = getattr(self, name)
            if isinstance(given, Iterator):
                object.__setattr__(self, name, list(itertools.islice(given, MOST_GIVEN + 1)))

    def record(self, leases: int) -> Open:
        """Return the OPEN record.

        Args:
            leases: number of slots that the caller may hold at once without copies.

        Raises:
            UsageError: an argument is out of bounds; the message names it.
        """
        name, graph = ("", b"") if self.mix is not None else pipeline_data(self.pipeline)
        on_error: Any = one_of("on_error", self.on_error, _ON_ERROR)
        tail: Literal["drop", "pad"] = "drop" if self.last == "drop" else "pad"
        record = Open(
            request=OPEN_REQUEST,
            dataset=name_of("dataset", "" if self.dataset is None else self.dataset),
            pipeline=name,
            graph=graph,
            batch_size=self._global_batch(),
            rank=self.rank,
            world_size=self.world_size,
            shuffle=flag("shuffle", self.shuffle),
            tail=tail,
            seed=within("seed", self.seed, 0, MAX_SEED),
            freeze=_freeze(self.freeze),
            views=within("views", self.views, 1, MAX_VIEWS),
            total_epochs=None
            if self.total_epochs is None
            else within("total_epochs", self.total_epochs, 1, 2**48),
            on_error=on_error,
            prefetch=MOST_CHOSEN
            if self.prefetch is None
            else within("prefetch", self.prefetch, 1, MAX_DEPTH, " or None"),
            leases=leases,
            group=_group(self.group),
            group_size=self._group_size(),
            params=flag("params", self.params),
            buckets=self._buckets(),
            exclude=b"" if self._has_ids() else self._excluded().to_bytes(),
            progress=self.rank == 0 and is_shown(),
            subset=self._subset(),
            prefetch_bytes=SLAB_BYTES if self.prefetch is None else 0,
            verify=flag("verify", self.verify),
            weights=self._weights(),
            shuffle_block=self._shuffle_block(),
            mix=self._mix(),
            shuffle_seed=self._shuffle_seed(),
            mode=self._mode(),
            job=self.job,
        )
        _check_size(record)
        return record

    def _mix(self) -> bytes:
        if self.mix is None:
            return b""
        for name in _NOT_MIXED:
            given = getattr(self, name)
            if given is not None and given is not False:
                raise UsageError(f"mix and {name}: expected only one of them; leave {name} out")
        return mix_data(self.mix, self.pipeline)

    def _group_size(self) -> int:
        if self.group_size is None:
            return 0
        if self.group is None:
            raise UsageError(
                f"group_size={self.group_size!r} without group=: expected the name of the group "
                "whose size it is"
            )
        return within("group_size", self.group_size, 1, MOST_MEMBERS, " or None")

    def _mode(self) -> Literal["mirror", "fork"]:
        if self.mode is None:
            return "mirror"
        mode: Any = one_of("mode", self.mode, _MODES)
        if self.group is None:
            raise UsageError(f"mode={mode!r} without group=: expected the name of the group")
        return "fork" if mode == "fork" else "mirror"

    def _shuffle_block(self) -> int:
        size = self.shuffle_block_size
        if size is None:
            return 0
        for name, given in (("shuffle=False", not self.shuffle), ("buckets", bool(self.buckets))):
            if given:
                raise UsageError(
                    f"shuffle_block_size={size!r} and {name}: expected only one of them; leave "
                    "shuffle_block_size out"
                )
        return within("shuffle_block_size", size, 1, MAX_ROWS, " or None")

    def _shuffle_seed(self) -> int | None:
        seed = self.shuffle_seed
        if seed is None:
            return None
        if not self.shuffle and self.weights is None and self.mix is None:
            raise UsageError(
                f"shuffle_seed={seed!r} and shuffle=False without weights or mix: nothing in this "
                "order is drawn; leave shuffle_seed out"
            )
        return within("shuffle_seed", seed, 0, MAX_SEED, " or None")

    def _weights(self) -> bytes:
        if self.weights is None:
            return b""
        if self.buckets is not None:
            raise UsageError(
                "weights and buckets: expected only one of them: with buckets every sample comes "
                "once; leave one out"
            )
        return weights_of(self.weights).to_bytes()

    def _buckets(self) -> bytes:
        if self.buckets is None:
            return b""
        if not isinstance(self.buckets, Buckets | LengthBuckets):
            raise UsageError(
                f"buckets={self.buckets!r}: expected stoker.client.Buckets, for example "
                "Buckets(max_area=1024 * 1024), or LengthBuckets"
            )
        return self.buckets.to_bytes()

    def _excluded(self) -> Excluded:
        given = self.exclude
        return Excluded(()) if given is None else Excluded(_ids("exclude", given))

    def _has_ids(self) -> bool:
        """Return whether the subset is one of ids, of which the excluded ones are taken here."""
        return self.subset is not None and not is_split_name(self.subset)

    def _subset(self) -> bytes:
        if self.subset is None:
            return b""
        if isinstance(self.subset, str) and is_split_name(self.subset):
            return split_to_bytes(self.subset)
        subset = Subset(_ids("subset", self.subset), sort=bool(self.shuffle))
        return subset.without(self._excluded()).to_bytes()

    def _global_batch(self) -> int:
        if (self.batch_size is None) == (self.global_batch_size is None):
            raise UsageError(
                f"batch_size={self.batch_size!r}, global_batch_size={self.global_batch_size!r}: "
                "expected exactly one of them (batch_size counts per rank, global_batch_size over "
                "all ranks)"
            )
        if self.batch_size is not None:
            return self.world_size * within(
                "batch_size", self.batch_size, 1, MAX_BATCH // self.world_size
            )
        size = within("global_batch_size", self.global_batch_size, 1, MAX_BATCH)
        if size < self.world_size:
            raise UsageError(
                f"global_batch_size={size}: {self.world_size} ranks need at least one position "
                f"each; give at least {self.world_size}"
            )
        return size


def pipeline_data(pipeline: object) -> tuple[str, bytes]:
    """Return (name at the daemon, b"") or ("", canonical bytes of the graph).

    Raises:
        UsageError: it is neither a name nor a pipeline, or its graph is too large.
    """
    if isinstance(pipeline, str):
        if not pipeline:
            raise UsageError("pipeline='': expected a name known to the daemon, or a pipeline")
        return name_of("pipeline", pipeline), b""
    graph = getattr(pipeline, "graph", None)
    if not callable(graph):
        raise UsageError(
            f"pipeline={pipeline!r}: expected the name of a pipeline at the daemon, "
            "'module:attribute', or a pipeline made with stoker.pipeline"
        )
    data = canonical_bytes(graph().to_data())
    if len(data) > MAX_GRAPH_BYTES:
        raise UsageError(
            f"the pipeline's graph has {len(data)} bytes, but at most {MAX_GRAPH_BYTES} can be "
            "sent; name the pipeline at the daemon instead (--pipeline NAME=module:attribute)"
        )
    return "", data


def mix_data(mix: object, pipeline: object) -> bytes:
    """Return the mixture as OPEN carries it.

    Args:
        mix: name of a dataset -> its ratio.
        pipeline: the pipeline of all of them, or name of a dataset -> its pipeline.

    Raises:
        UsageError: either cannot be.
    """
    if not isinstance(mix, Mapping) or not mix:
        raise UsageError(
            f'mix={mix!r}: expected names of datasets and their ratios, such as {{"a": 0.7, "b": '
            "0.3}"
        )
    own = pipeline if isinstance(pipeline, Mapping) else dict.fromkeys(mix, pipeline)
    if own.keys() != mix.keys():
        raise UsageError(
            "pipeline: expected one pipeline, or one for each dataset of mix, "
            f"{', '.join(map(str, mix))}; got {', '.join(map(str, own))}"
        )
    parts = []
    for name, ratio in mix.items():
        is_number = isinstance(ratio, numbers.Real) and not isinstance(ratio, bool)
        if not is_number or not 0 < float(ratio) < math.inf:
            raise UsageError(
                f"mix[{name!r}]={ratio!r}: expected a positive number; leave a dataset out that "
                "should not come"
            )
        known, graph = pipeline_data(own[name])
        parts.append(Component(name_of("mix", name), float(ratio), known, graph.decode("ascii")))
    return mix_to_bytes(parts)


def _check_size(record: Open) -> None:
    parts = {"pipeline": record.graph, "exclude": record.exclude, "subset": record.subset}
    parts |= {"weights": record.weights, "mix": record.mix}
    sizes = {name: len(data) for name, data in parts.items()}
    if sum(sizes.values()) > MAX_MESSAGE_BYTES - OTHER_BYTES:
        listed = ", ".join(f"{name}={size}" for name, size in sizes.items() if size)
        raise UsageError(
            f"one message has room for {MAX_MESSAGE_BYTES} bytes, and these arguments take more "
            f"together: {listed}; name the pipeline at the daemon, or store the weights as a field "
            "of the dataset"
        )


def _freeze(freeze: object) -> dict[str, int | Literal["epoch"]]:
    checked: dict[str, int | Literal["epoch"]] = {}
    if freeze is None:
        return checked
    if not isinstance(freeze, Mapping):
        raise UsageError(
            f"freeze={freeze!r}: expected names of streams and what they are frozen to, such as "
            '{"crop": "epoch"}'
        )
    for stream, value in freeze.items():
        name_of("freeze", stream)
        if value == "epoch":
            checked[stream] = "epoch"
        else:
            checked[stream] = within(f"freeze[{stream!r}]", value, 0, MAX_SEED, ' or "epoch"')
    return checked


def _group(group: object) -> str | None:
    """Return the name of a group; an empty one is more likely a mistake than a name."""
    if group is None or (name_of("group", group) and isinstance(group, str)):
        return group
    raise UsageError(
        "group='': expected a name that the members of the group share, or None for a loader of"
        " its own"
    )


def _ids(name: str, given: object) -> Iterable[int]:
    """Return ids, or those that a file lists."""
    if isinstance(given, str | os.PathLike):
        return read_ids(given, name)
    if not isinstance(given, Iterable):
        raise UsageError(
            f"{name}={given!r}: expected sample ids, or the path of a file that lists them"
        )
    return given
