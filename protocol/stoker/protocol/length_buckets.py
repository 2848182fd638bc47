"""Buckets of sequences: the request for batches of samples of similar length.

`LengthBuckets` is to sequences what `Buckets` is to images: a bucket is named by one integer, the
greatest length of its samples. The rest (order, leftovers, accounts) is shared code, specified in
docs/contracts/order.md. In a `Bucket` the width is that length and the height is 0.
"""

import difflib
import itertools
import json
from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from stoker.protocol.canonical import Canonical
from stoker.protocol.errors import UsageError
from stoker.protocol.size_buckets import (
    KIND,
    MAX_LENGTH,
    MAX_POSITIONS,
    SIZES,
    Buckets,
    Leftovers,
    fields_of,
    named,
    one_of,
    rows_within,
    use_python_numbers,
    within,
)

LENGTHS: Final = "lengths"
MAX_BOUNDS: Final = 256
_AS_JSON: Final = (
    'buckets: expected arguments of Buckets or LengthBuckets as JSON, such as {"max_area": 1048576}'
)
_SHOWN: Final = 80
Longer = Literal["error", "truncate", "drop"]


class LengthBuckets(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True,
    tag_field=KIND, tag=LENGTHS,
):  # fmt: skip
    """Batches of sequences of similar length.

    Attributes:
        field: the field whose length counts: an array or bytes of varying length, boxes or
            keypoints (their number), or an integer that is the length.
        multiple: a bucket's length is the next multiple of it; 1 gives each length its own bucket.
        bounds: the lengths of the buckets, ascending; instead of `multiple`.
        max_length: greatest length of a bucket; None with `bounds`, where the last bound is that
            length, or if there is no limit.
        longer: what happens to a sample that is longer than every bucket: "error" refuses to plan,
            "truncate" puts it into the longest, where `ops.fit_length` cuts it, "drop" leaves it
            out of every epoch.
        leftovers: what happens to samples that fill no batch: "carry" them into the next epoch,
            "merge" a bucket too small for one batch into the next longer one (the longest takes in
            the next shorter one; what is left over after that is carried), or "drop" them.
        constant: what all batches have in common: the number of "rows", or roughly the number of
            "tokens": then a batch of the greatest length has `batch_size` positions, and batches of
            shorter sequences have more.
        min_rows: fewest positions in a global batch with constant tokens.
        max_rows: most positions in a global batch with constant tokens; None: no limit.
    """

    field: Annotated[str, msgspec.Meta(max_length=256)]
    multiple: int | None = None
    bounds: Annotated[tuple[int, ...], msgspec.Meta(max_length=MAX_BOUNDS)] | None = None
    max_length: int | None = None
    longer: Longer = "error"
    leftovers: Leftovers = "carry"
    constant: Literal["rows", "tokens"] = "rows"
    min_rows: int = 1
    max_rows: int | None = None

    def __post_init__(self) -> None:
        """Check the parameters.

        Raises:
            UsageError: one is out of bounds, or they contradict each other.
        """
        use_python_numbers(self)
        named("field", self.field)
        if (self.multiple is None) == (self.bounds is None):
            raise UsageError(
                f"buckets: multiple={self.multiple!r}, bounds={self.bounds!r}: expected exactly one"
                " of them, for example multiple=64 or bounds=(128, 512, 2048)"
            )
        for name, value, most in (
            ("multiple", self.multiple, MAX_LENGTH),
            ("max_length", self.max_length, MAX_LENGTH),
            ("max_rows", self.max_rows, MAX_POSITIONS),
        ):
            if value is not None:
                within(name, value, most)
        one_of("longer", self.longer, ("error", "truncate", "drop"))
        one_of("leftovers", self.leftovers, ("carry", "merge", "drop"))
        one_of("constant", self.constant, ("rows", "tokens"))
        rows_within(self.min_rows, self.max_rows)
        if self.bounds is not None:
            self._check_bounds(self.bounds)

    @property
    def reference(self) -> int | None:
        """Greatest possible length of a bucket; None if there is no limit."""
        return self.bounds[-1] if self.bounds else self.max_length

    def to_data(self) -> dict[str, Canonical]:
        """Return the parameters as plain data, for the digest of a plan."""
        return {KIND: LENGTHS, **fields_of(self)}

    def _check_bounds(self, bounds: tuple[int, ...]) -> None:
        bounds = bounds.tolist() if isinstance(bounds, np.ndarray) else bounds
        if not isinstance(bounds, tuple | list) or not 1 <= len(bounds) <= MAX_BOUNDS:
            raise UsageError(f"buckets: bounds: expected 1 to {MAX_BOUNDS} lengths, got {bounds!r}")
        for bound in bounds:
            within("bounds", bound, MAX_LENGTH)
        if any(left >= right for left, right in itertools.pairwise(bounds)):
            raise UsageError(f"buckets: bounds: expected ascending lengths, got {bounds}")
        if self.max_length is not None:
            raise UsageError(
                f"buckets: max_length={self.max_length}: the last bound is already the greatest "
                "length: leave max_length out"
            )
        msgspec.structs.force_setattr(self, "bounds", tuple(map(int, bounds)))


Request = Buckets | LengthBuckets
"""A request for buckets: by size or by length."""


def request_from_json(text: str) -> Request:
    """Parse a request from JSON; `kind`, or else `multiple` or `bounds`, says of which buckets.

    Raises:
        UsageError: the text is not a JSON object of such arguments, or the request is not possible.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{_AS_JSON}, got {text[:_SHOWN]!r}: {error}") from None
    if not isinstance(given, dict):
        raise UsageError(f"{_AS_JSON}, got {text[:_SHOWN]!r}")
    usual = LENGTHS if given.keys() & {"multiple", "bounds"} else SIZES
    said = given.pop(KIND, usual)  # as in the record of a stream
    if said not in (SIZES, LENGTHS):
        raise UsageError(f"buckets: {KIND}: expected {SIZES!r} or {LENGTHS!r}, got {said!r:.80}")
    kind = LengthBuckets if said == LENGTHS else Buckets
    known = kind.__struct_fields__
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            near = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
            raise UsageError(f"buckets: {kind.__name__} has no argument {name!r}; {near}")
    if kind is LengthBuckets and "field" not in given:
        raise UsageError(
            'buckets: field: expected the name of the field whose length counts, as in {"field": '
            '"tokens", "multiple": 64}'
        )
    return kind(**given)
