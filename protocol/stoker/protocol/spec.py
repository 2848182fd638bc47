"""StreamSpec v1 and the stream id: the arguments of the law.

A row is a pure function of (StreamSpec, epoch, position, view); a batch is the rows of the
positions [s*B, (s+1)*B), cut by rank. So everything that may change one byte of a stream is a field
here, and nothing else is. The stream id is the BLAKE2b-128 of the canonical form of the record.
Specified with vectors in docs/contracts/stream-spec.md. Fields are never renamed, retyped or
removed. A field added after version 1 has a default, and is left out of the canonical form while it
has that value, so existing ids stay the same.
"""

import operator
import re
from typing import Literal

import msgspec

from stoker.protocol import version
from stoker.protocol.analysis import analyzed
from stoker.protocol.canonical import canonical_digest
from stoker.protocol.errors import UsageError

MAX_ROWS = 2**48
MAX_SEED = 2**64 - 1
MAX_BATCH = 2**24
MAX_VIEWS = 2**16 - 1
MAX_EXCLUDED = 2**17
"""Maximum number of ids in an exclude list, of eight bytes each."""
MAX_WORKERS = 1024
"""Worker processes of one daemon."""
_DIGEST = re.compile("[0-9a-f]{32}")
_FINGERPRINT = re.compile("(content|stat|declared):[0-9a-f]{32}")
_EXCLUDE = re.compile("[1-9][0-9]{0,14}:[0-9a-f]{32}")
_LATER = ("mix",)
"""Fields that were added after version 1; their default is None."""
_MADE_OF = {
    "buckets": " (sizes of the samples, and options of the buckets)",
    "dataset": " (the samples and their fields)",
    "mix": " (the datasets of the mixture, their pipelines and their shares)",
    "exclude": " (how many samples are left out, and which)",
    "pipeline": " (its steps, their parameters, the version of each op, and your own code in it)",
}


class Contracts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Versions of the contracts that decide bytes: draws, permutation, arithmetic, decoding."""

    random: int = version.RANDOM
    order: int = version.ORDER
    numeric: int = version.NUMERIC
    decoder: int = version.DECODER


class OrderSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rule that turns positions into sample ids.

    `kind` "full" visits every sample once per epoch. `subset` and `weights` are digests of data
    that the daemon receives separately from the spec; `block` is the block length of a block
    shuffle. `seed` replaces the stream's seed in the order: in the shuffle, in the rest of a sample
    with a weight, in the turns of a mixture, and in substitutes. It was added after version 1.
    """

    kind: Literal["full", "subset", "weighted"] = "full"
    shuffle: bool = True
    subset: str | None = None
    weights: str | None = None
    block: int | None = None
    seed: int | None = None


class StreamSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything that determines the bytes of a stream.

    Attributes:
        dataset: fingerprint of the dataset, `<level>:<32 hex digits>`.
        dataset_rows: number of samples in that dataset.
        pipeline: pipeline id, 32 hex digits.
        batch_size: positions in a global batch (B), over all ranks.
        order: how positions become sample ids.
        tail: what happens to the last, incomplete batch: "drop" it, or "pad" it with rows that are
            zero, have index -1 and `valid` false.
        seed: unsigned 64-bit seed of every draw, and of the order unless the order has one.
        freeze: stream name -> the integer that replaces (id, epoch, visit, view), or "epoch".
        views: rows per position.
        total_epochs: the length of schedules; set only if the pipeline reads it.
        on_error: what happens to a sample that cannot be used: "raise" an error, "replace" it by a
            substitute, or "mask" its row as invalid.
        exclude: digest of the exclude list, `<number of ids>:<32 hex digits>`, or None.
        buckets: digest of the bucket plan, or None.
        mix: digest of the mixture, or None; `dataset` then stands for all of its datasets, one
            after the other, and `pipeline` for their pipelines.
    """

    version: int = version.STREAM_SPEC
    contracts: Contracts = msgspec.field(default_factory=Contracts)
    dataset: str
    dataset_rows: int
    pipeline: str
    batch_size: int
    order: OrderSpec = msgspec.field(default_factory=OrderSpec)
    tail: Literal["drop", "pad"] = "drop"
    seed: int = 0
    freeze: dict[str, int | Literal["epoch"]] = msgspec.field(default_factory=dict)
    views: int = 1
    total_epochs: int | None = None
    on_error: Literal["raise", "replace", "mask"] = "raise"
    exclude: str | None = None
    buckets: str | None = None
    mix: str | None = None

    def __post_init__(self) -> None:
        """Check the bounds.

        Raises:
            UsageError: a number is out of bounds, or a digest is malformed.
        """
        _within("seed", self.seed, 0, MAX_SEED)
        _within("batch_size", self.batch_size, 1, MAX_BATCH)
        _within("views", self.views, 1, MAX_VIEWS)
        _within("dataset_rows", self.dataset_rows, 1, MAX_ROWS)
        if self.total_epochs is not None:
            _within("total_epochs", self.total_epochs, 1, MAX_ROWS)
        if self.order.block is not None:
            _within("order.block", self.order.block, 0, MAX_ROWS)
        if self.order.seed is not None:
            _within("order.seed", self.order.seed, 0, MAX_SEED)
        _digest("dataset", self.dataset, _FINGERPRINT, "<level>:")
        _digest("pipeline", self.pipeline)
        _digest("order.subset", self.order.subset)
        _digest("order.weights", self.order.weights)
        _digest("exclude", self.exclude, _EXCLUDE, "<count>:")
        if self.epoch_rows < 1:
            raise UsageError(
                f"exclude: the list has {self.excluded_rows} ids and the dataset has "
                f"{self.dataset_rows} samples, so none is left"
            )
        _digest("buckets", self.buckets)
        _digest("mix", self.mix)
        for name, value in self.freeze.items():
            if name.startswith("$"):
                raise UsageError(
                    f"freeze: expected a stream name that does not begin with '$', got {name!r}"
                )
            if value != "epoch":
                _within(f"freeze[{name!r}]", value, 0, MAX_SEED)

    @property
    def excluded_rows(self) -> int:
        """Number of samples that are left out."""
        return 0 if self.exclude is None else int(self.exclude.partition(":")[0])

    @property
    def epoch_rows(self) -> int:
        """Number of samples that an epoch visits: those of the dataset that are not left out."""
        return self.dataset_rows - self.excluded_rows

    @property
    def order_seed(self) -> int:
        """The seed of the order."""
        return self.seed if self.order.seed is None else self.order.seed

    @property
    def stream_id(self) -> str:
        """BLAKE2b-128 of the canonical form, 32 hex digits."""
        return canonical_digest(self.to_data())  # type: ignore[arg-type]

    def to_data(self) -> dict[str, object]:
        """Return the record as plain data: every field of version 1, and later ones if set."""
        data = msgspec.to_builtins(self)
        assert isinstance(data, dict)
        for name in _LATER:
            if data[name] is None:
                del data[name]
        if self.order.seed is None:
            del data["order"]["seed"]
        return data

    @staticmethod
    def from_data(data: object) -> "StreamSpec":
        """Parse plain data.

        Raises:
            UsageError: a field is unknown, missing, of the wrong type or out of bounds.
        """
        try:
            return msgspec.convert(data, analyzed(StreamSpec))
        except msgspec.ValidationError as error:
            raise UsageError(f"StreamSpec: {error}") from None


def as_integer(value: object) -> int | None:
    """Return an integer of Python or NumPy as an int; None for anything else, also for a bool."""
    try:
        return None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def differences(
    before: dict[str, object], now: dict[str, object], first: str = "was", second: str = "is"
) -> list[str]:
    """List the differences between two specs in plain data form, one line per field.

    For a field that is a digest the line says what the digest covers.

    Args:
        before: a spec.
        now: another one.
        first: what comes before the value of `before`.
        second: what comes before the value of `now`.
    """
    return [
        f"{key}: {first} {before.get(key)!r}, {second} {now.get(key)!r}{_MADE_OF.get(key, '')}"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key)
    ]


def _within(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise UsageError(f"{name}: expected an integer from {low} to {high}, got {value!r}")


def _digest(
    name: str, value: str | None, form: re.Pattern[str] = _DIGEST, prefix: str = ""
) -> None:
    if value is not None and not form.fullmatch(value):
        raise UsageError(f"{name}: expected {prefix}<32 hex digits>, got {value!r}")
