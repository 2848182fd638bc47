"""The options of a stream that exclude each other, and the reasons: one table for both sides.

A Loader checks the record before it sends it, and its error names the Loader's arguments; a daemon
checks what it receives, and its error names the fields. A reason is a fact about the data or the
samples, which no code could change.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from stoker.protocol.errors import UsageError
from stoker.protocol.request.stream_request import StreamRequest

Given = Callable[[StreamRequest], bool]


class Option(NamedTuple):
    """An option that excludes others, or is excluded.

    Attributes:
        argument: what a Loader's caller writes.
        field: what OPEN has.
        given: whether a request uses it.
    """

    argument: str
    field: str
    given: Given


class Refusal(NamedTuple):
    """Two options that exclude each other.

    Attributes:
        one: name of one of them in `OPTIONS`.
        other: name of the other.
        why: the reason, which completes "... cannot be combined: ...".
        unless: names of options with each of which they can be combined.
    """

    one: str
    other: str
    why: str
    unless: tuple[str, ...] = ()


def _selects(*fields: str) -> Given:
    return lambda stream: any(
        getattr(source.selection, name) for source in stream.sources for name in fields
    )


OPTIONS: Final[dict[str, Option]] = {
    "mix": Option("mix", "sources with ratios", lambda stream: stream.is_mixture),
    "buckets": Option("buckets", "order.buckets", lambda stream: bool(stream.order.buckets)),
    "weights": Option("weights", "sources.selection.weights", _selects("weights")),
    "exclude": Option("exclude", "sources.selection.exclude", _selects("exclude")),
    "subset": Option(
        "subset",
        "sources.selection.subset, .split or .condition",
        _selects("subset", "split", "condition"),
    ),
    "block": Option(
        "Shuffle(block_size=...)", "order.block", lambda stream: bool(stream.order.block)
    ),
    "order seed": Option(
        "Shuffle(seed=...)", "order.seed", lambda stream: stream.order.seed is not None
    ),
    "no shuffle": Option(
        "shuffle=False", "order.shuffle=false", lambda stream: not stream.order.shuffle
    ),
    "params": Option("params", "params", lambda stream: stream.params),
}

REFUSALS: Final = (
    Refusal("block", "no shuffle", "blocks of samples are shuffled"),
    Refusal(
        "order seed", "no shuffle", "nothing in this order is drawn", unless=("weights", "mix")
    ),
)


def check_combination(stream: StreamRequest, *, received: bool = False) -> None:
    """Check that no option excludes another.

    Args:
        stream: the stream.
        received: whether the message names fields of OPEN, in place of a Loader's arguments.

    Raises:
        UsageError: two do; the message names them and says why.
    """
    for refusal in REFUSALS:
        names = (refusal.one, refusal.other)
        if not all(OPTIONS[name].given(stream) for name in names):
            continue
        if any(OPTIONS[name].given(stream) for name in refusal.unless):
            continue
        one, other = (OPTIONS[name].field if received else OPTIONS[name].argument for name in names)
        without = f" without {' or '.join(refusal.unless)}" * bool(refusal.unless)
        raise UsageError(
            f"{'open: ' * received}{one} and {other}{without} cannot be combined, because "
            f"{refusal.why}; leave one of them out"
        )
