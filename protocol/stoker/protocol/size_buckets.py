"""Aspect-ratio buckets: the request, the resulting buckets, and the number of steps in an epoch.

`Buckets` is the request: how the output size of an image is chosen, and what happens to samples
that fill no batch. `Bucket` is one row of the resulting plan: a size, how many samples have it, and
how many of them make a batch. `BucketSteps` is the arithmetic of epochs: pure integers, no state.
Both sides use it. docs/contracts/order.md specifies all of it.
"""

import functools
import itertools
import math
import numbers
from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np

from stoker.protocol.canonical import Canonical
from stoker.protocol.errors import UsageError
from stoker.protocol.slot_layout import Output
from stoker.protocol.spec import as_integer

KIND, SIZES = "kind", "sizes"
"""Field that says of a request on the wire whether it is by size or by length."""
MAX_SIDE = 65535
MAX_LENGTH = 2**20
MAX_AREA = 2**26
MAX_DIVISOR = 4096
MAX_BUCKETS = 4096
MAX_POSITIONS = 2**24
MAX_SIZES = 256
"""Sizes of a table, which must fit into a request."""
MAX_RATIO = 64
MAX_NAME = 256
RATIO_PARTS = 1000
"""A ratio is a whole number of thousandths."""
CUT_WEIGHT = 7
MIN_CUT_WEIGHT, MAX_CUT_WEIGHT = 2, 16

DRAWN_AS = Output("drawn_as", "int64", (3,), "drawn_as")
"""The (epoch, visit, view) that each row draws with, if the stream has buckets or weights."""

_NEAR = 1e-6
Leftovers = Literal["carry", "merge", "drop"]
Count = Annotated[int, msgspec.Meta(ge=1, le=2**48)]
Positions = Annotated[int, msgspec.Meta(ge=1, le=MAX_POSITIONS)]


class Buckets(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True,
    tag_field=KIND, tag=SIZES,
):  # fmt: skip
    """Batches of one size each, chosen to keep the aspect ratio of every image as well as possible.

    Attributes:
        max_area: maximum number of pixels in an output; each image gets a size of about that area
            whose aspect ratio is near its own. None with `sizes` or `resize=False`.
        divisor: every side of an output is a multiple of it.
        min_side: smallest side of an output; None means `divisor`.
        max_side: greatest side of an output; None means that only the area is limited.
        max_ratio: greatest ratio of the longer side of an output to the shorter one, 1 to 64 with
            at most three decimals; None: no limit.
        sizes: the only sizes of outputs, (width, height) each, instead of `max_area`.
        upscale: whether an image may be scaled up to fill the area. If not, no side of an output is
            longer than the image's, except where the image is too small for every size.
        cut_weight: how much a part that is cut off counts against the area, 2 to 16: an image gets
            the size with the greatest (part that is kept)**cut_weight * area.
        resize: whether images are resized; if not, the image's own size is its bucket.
        field: the image field whose size counts.
        leftovers: what happens to samples that fill no batch: "carry" them into the next epoch,
            "merge" a bucket too small for one batch into the next best one (and carry what is left
            over after that), or "drop" them.
        constant: what all batches have in common: the number of "rows", or roughly the number of
            "pixels": then a batch of the greatest area has `batch_size` positions, and batches of
            smaller images have more.
        min_rows: fewest positions in a global batch with constant pixels.
        max_rows: most positions in a global batch with constant pixels; None: no limit.
    """

    max_area: int | None = None
    divisor: int = 64
    min_side: int | None = None
    max_side: int | None = None
    max_ratio: float | None = None
    sizes: Annotated[tuple[tuple[int, int], ...], msgspec.Meta(max_length=MAX_SIZES)] | None = None
    upscale: bool = True
    cut_weight: int = CUT_WEIGHT
    resize: bool = True
    field: Annotated[str, msgspec.Meta(max_length=MAX_NAME)] = "image"
    leftovers: Leftovers = "carry"
    constant: Literal["rows", "pixels"] = "rows"
    min_rows: int = 1
    max_rows: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            UsageError: one is out of bounds, or they contradict each other.
        """
        use_python_numbers(self)
        named("field", self.field)
        within("divisor", self.divisor, MAX_DIVISOR)
        for name, value, most in (
            ("min_side", self.min_side, MAX_SIDE),
            ("max_side", self.max_side, MAX_SIDE),
        ):
            if value is not None:
                within(name, value, most)
        one_of("leftovers", self.leftovers, ("carry", "merge", "drop"))
        one_of("constant", self.constant, ("rows", "pixels"))
        one_of("resize", self.resize, (True, False))
        one_of("upscale", self.upscale, (True, False))
        within("cut_weight", self.cut_weight, MAX_CUT_WEIGHT, MIN_CUT_WEIGHT)
        rows_within(self.min_rows, self.max_rows)
        limits = ("min_side", "max_side", "max_ratio")
        if not self.resize:
            self._refuse(
                ("max_area", "sizes", *limits),
                "chooses a size to resize to; with resize=False every image keeps its own",
            )
        if self.max_ratio is not None:
            self._check_ratio(self.max_ratio)
        if self.sizes is not None:
            self._refuse(("max_area", *limits), "chooses sizes, and sizes= lists them")
            self._check_table(self.sizes)
        elif self.resize:
            self._check_sizes()
        elif self.leftovers == "merge":  # and no resizing
            raise UsageError(
                "buckets: leftovers='merge' moves images to another size, so it needs resize=True; "
                "without it use 'carry' or 'drop'"
            )

    def to_data(self) -> dict[str, Canonical]:
        """Return the parameters as plain data, for the digest of a plan."""
        return fields_of(self)

    @property
    def reference(self) -> int | None:
        """Maximum number of pixels in an output; None if images are not resized."""
        if self.sizes is not None:
            return max(width * height for width, height in self.sizes)
        return self.max_area

    @property
    def ratio_parts(self) -> int | None:
        """`max_ratio` in thousandths."""
        return None if self.max_ratio is None else round(self.max_ratio * RATIO_PARTS)

    @property
    def least_side(self) -> int:
        """Smallest side of an output: `min_side`, rounded up to a multiple of the divisor."""
        return -(-(self.min_side or 1) // self.divisor) * self.divisor

    @property
    def greatest_side(self) -> int:
        """Greatest side of an output: `max_side`, rounded down to a multiple of the divisor."""
        return (self.max_side or MAX_SIDE) // self.divisor * self.divisor

    def _refuse(self, names: Sequence[str], why: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise UsageError(f"buckets: {name} {why}: leave {name} out")

    def _check_ratio(self, ratio: object) -> None:
        number = float(ratio) if isinstance(ratio, numbers.Real) else math.nan
        parts = number * RATIO_PARTS
        if (
            isinstance(ratio, bool)
            or not 1 <= number <= MAX_RATIO
            or abs(parts - round(parts)) > _NEAR
        ):
            raise UsageError(
                f"buckets: max_ratio: expected a number from 1 to {MAX_RATIO} with at most three "
                f"decimals, got {ratio!r}"
            )
        msgspec.structs.force_setattr(self, "max_ratio", round(parts) / RATIO_PARTS)

    def _check_table(self, sizes: object) -> None:
        found = [_pair(size, self.divisor) for size in _listed(sizes)]
        if not 1 <= len(found) <= MAX_SIZES or len({*found}) < len(found):
            raise UsageError(
                f"buckets: sizes: expected 1 to {MAX_SIZES} different sizes, (width, height) each, "
                f"got {len(found)}, of which {len({*found})} are different"
            )
        msgspec.structs.force_setattr(self, "sizes", tuple(sorted(found)))

    def _check_sizes(self) -> None:
        if self.max_area is None:
            raise UsageError(
                "buckets: give max_area, the maximum pixels of an output, for example "
                "max_area=1024 * 1024; or sizes, or resize=False"
            )
        within("max_area", self.max_area, MAX_AREA)
        low, high = self.least_side, self.greatest_side
        if low > high:
            raise UsageError(
                f"buckets: no multiple of divisor={self.divisor} is between min_side="
                f"{self.min_side} and max_side={self.max_side}; use a smaller divisor or wider "
                "limits"
            )
        if low * low > self.max_area:
            raise UsageError(
                f"buckets: max_area={self.max_area} is too small for any bucket: the smallest side "
                f"is {low}, so the smallest area is {low * low}; use a smaller divisor or "
                "min_side, or a larger max_area"
            )


class Bucket(msgspec.Struct, frozen=True, array_like=True):
    """One size of a plan.

    Attributes:
        width: width of its outputs in pixels; for sequences, the greatest length.
        height: height of its outputs in pixels; 0 for a bucket of sequences.
        samples: how many samples are in the bucket.
        positions: positions in one of its global batches.
        rows: how many rows each epoch has of it: as many as samples, unless there are weights or
            a mixture.
    """

    width: Annotated[int, msgspec.Meta(ge=1, le=MAX_LENGTH)]
    height: Annotated[int, msgspec.Meta(ge=0, le=MAX_SIDE)]
    samples: Count
    positions: Positions
    rows: Count

    @property
    def name(self) -> str:
        """The bucket's name in reports: `1152x896`, or `512` for sequences."""
        return f"{self.width}x{self.height}" if self.height else str(self.width)


Tail = Literal["carry", "drop", "pad"]


def tail_of(tail: Literal["drop", "pad"], leftovers: Leftovers) -> Tail:
    """Return what happens to an incomplete batch, by the tail of the spec and the request."""
    if tail == "pad":
        return "pad"
    return "drop" if leftovers == "drop" else "carry"


class BucketSteps:
    """The batches that an epoch delivers; those of each bucket are numbered from 0 across epochs.

    With tail "carry" a bucket is one endless stream: the rows of epoch 0, then those of epoch 1,
    and so on, cut every `positions`; epoch e delivers the batches that end in it. With "drop" and
    "pad" every epoch is cut by itself, and the incomplete batch at its end is dropped or padded.
    """

    def __init__(self, buckets: Sequence[Bucket], tail: Tail) -> None:
        self.buckets = tuple(buckets)
        self.tail = tail
        self.steps = functools.lru_cache(maxsize=64)(self._steps)

    def batches_before(self, bucket: int, epoch: int) -> int:
        """Return how many batches a bucket delivers before an epoch."""
        rows, size = self.buckets[bucket].rows, self.buckets[bucket].positions
        if self.tail == "carry":
            return epoch * rows // size
        return epoch * (rows // size if self.tail == "drop" else -(-rows // size))

    def steps_before(self, epoch: int) -> int:
        """Return how many steps the stream has before an epoch."""
        return sum(self.batches_before(bucket, epoch) for bucket in range(len(self.buckets)))

    def _steps(self, epoch: int) -> int:
        """Return the number of steps of an epoch."""
        return self.steps_before(epoch + 1) - self.steps_before(epoch)


def _listed(sizes: object) -> list[object]:
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Iterable):
        raise UsageError(
            f"buckets: sizes: expected a list of (width, height), such as [(1152, 896)], got "
            f"{sizes!r}"
        )
    return list(itertools.islice(sizes, MAX_SIZES + 1))


def _pair(size: object, divisor: int) -> tuple[int, int]:
    """Return a size of a table as integers."""
    sides = [as_integer(side) for side in size] if isinstance(size, Iterable) else []
    if len(sides) == 2 and all(side is not None and 1 <= side <= MAX_SIDE for side in sides):
        width, height = sides[0] or 0, sides[1] or 0
        if width * height <= MAX_AREA and width % divisor == height % divisor == 0:
            return width, height
    raise UsageError(
        f"buckets: sizes: expected (width, height) from 1 to {MAX_SIDE}, with at most {MAX_AREA} "
        f"pixels and multiples of divisor={divisor}, got {size!r}"
    )


def fields_of(request: msgspec.Struct) -> dict[str, Canonical]:
    """Return all fields of a request, also those with their default value."""
    return {name: getattr(request, name) for name in request.__struct_fields__}


def use_python_numbers(request: msgspec.Struct) -> None:
    """Replace the NumPy numbers of a request, which its canonical form cannot hold."""
    for name in request.__struct_fields__:
        value = getattr(request, name)
        if isinstance(value, np.bool_):
            msgspec.structs.force_setattr(request, name, bool(value))
        elif (number := as_integer(value)) is not None:
            msgspec.structs.force_setattr(request, name, number)


def within(name: str, value: object, most: int, least: int = 1) -> None:
    """Check a numeric parameter of a request.

    Raises:
        UsageError: the value is not an integer from `least` to `most`.
    """
    number = as_integer(value)
    if number is None or not least <= number <= most:
        raise UsageError(
            f"buckets: {name}: expected an integer from {least} to {most}, got {value!r}"
        )


def named(name: str, value: object) -> None:
    """Check a parameter of a request that is the name of a field.

    Raises:
        UsageError: the value is not text of 1 to 256 characters.
    """
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME:
        raise UsageError(f"buckets: {name}: expected the name of a field, got {value!r:.80}")


def one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Check a parameter of a request that allows a few values.

    Raises:
        UsageError: the value is not one of `allowed`.
    """
    if value not in allowed:
        raise UsageError(
            f"buckets: {name}: expected {' or '.join(map(repr, allowed))}, got {value!r}"
        )


def rows_within(least: int, most: int | None) -> None:
    """Check the limits of the positions in a batch.

    Raises:
        UsageError: one is out of bounds, or they contradict each other.
    """
    within("min_rows", least, MAX_POSITIONS)
    if most is None:
        return
    within("max_rows", most, MAX_POSITIONS)
    if most < least:
        raise UsageError(
            f"buckets: min_rows={least} is more than max_rows={most}: lower min_rows or raise "
            "max_rows"
        )
