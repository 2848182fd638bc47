"""Options that cannot be combined, and the reasons: one table for both sides.

A Loader checks what it was given, and its error names its arguments; a daemon checks what it
receives, and its error names the fields. A reason is a fact about samples, training or computers,
which no code could change. All other options of a stream combine.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from stoker.protocol.errors import UsageError
from stoker.protocol.request.stream_request import DeliveryRequest, StreamRequest


class Asked(NamedTuple):
    """The call of a Loader, or the request that a daemon receives.

    Attributes:
        stream: the stream.
        delivery: how its batches come; None: a command shows the stream.
        world_size: number of ranks.
        last: the Loader's; empty in a daemon, which pads.
        has_path: whether the dataset is given by its path, so a private daemon serves it.
    """

    stream: StreamRequest
    delivery: DeliveryRequest | None = None
    world_size: int = 1
    last: str = ""
    has_path: bool = False


class OptionChoice(NamedTuple):
    """An option with the values of it that exclude something.

    Attributes:
        option: name of the Loader's argument, or of a field of its record `Shuffle`.
        argument: what a Loader's caller writes.
        field: what OPEN has; empty if only a Loader has the option.
        given: whether it was chosen.
    """

    option: str
    argument: str
    field: str
    given: Callable[[Asked], bool]


class Refusal(NamedTuple):
    """Two choices that exclude each other.

    Attributes:
        one: name of one of them in `CHOICES`.
        other: name of the other.
        why: the reason, which completes "... cannot be combined, because ...".
        remedy: what to do.
    """

    one: str
    other: str
    why: str
    remedy: str = "leave one of them out"


CHOICES: Final[dict[str, OptionChoice]] = {
    "block": OptionChoice(
        "Shuffle.block_size", "Shuffle(block_size=...)", "order.block",
        lambda asked: bool(asked.stream.order.block),
    ),
    "in order": OptionChoice(
        "shuffle", "shuffle=False", "order.shuffle=false",
        lambda asked: not asked.stream.order.shuffle,
    ),
    "dropped leftovers": OptionChoice(
        "buckets", "leftovers='drop'", "order.buckets.leftovers='drop'",
        lambda asked: getattr(asked.stream.order.buckets, "leftovers", None) == "drop",
    ),
    "padded": OptionChoice(
        "drop_last", "drop_last=False", "batch.tail='pad'",
        lambda asked: asked.stream.batch.tail == "pad",
    ),
    "short": OptionChoice("last", "last='short'", "", lambda asked: asked.last == "short"),
    "ranks": OptionChoice("world_size", "world_size > 1", "", lambda asked: asked.world_size > 1),
    "path": OptionChoice(
        "address_or_path", "the path of a dataset", "", lambda asked: asked.has_path
    ),
    "mix": OptionChoice("mix", "mix", "", lambda asked: asked.stream.is_mixture),
    "name": OptionChoice(
        "dataset", "dataset", "", lambda asked: bool(asked.stream.sources[0].dataset)
    ),
    "group": OptionChoice(
        "group", "group", "",
        lambda asked: asked.delivery is not None and asked.delivery.group is not None,
    ),
}  # fmt: skip

REFUSALS: Final = (
    Refusal("block", "in order", "blocks of samples are shuffled"),
    Refusal(
        "dropped leftovers", "padded", "one leaves incomplete batches out, and the other keeps them"
    ),
    Refusal(
        "short", "ranks", "ranks need batches of one size",
        "use last='pad' and count the rows that are batch.valid",
    ),
    Refusal(
        "mix", "path", "a path is one dataset",
        "start a daemon that serves all of them (stoker serve --dataset NAME=PATH ...) and give "
        "its address",
    ),
    Refusal("name", "path", "the path already names the dataset", "leave dataset out"),
    Refusal(
        "group", "path",
        "with a path each program starts a daemon of its own, so no other would share its batches",
        "start a daemon with `stoker serve`, and give all members its address",
    ),
)  # fmt: skip


def check_combination(asked: Asked, *, received: bool = False) -> None:
    """Check that no option excludes another.

    Args:
        asked: what was asked for.
        received: whether the message names fields of OPEN, in place of a Loader's arguments.

    Raises:
        UsageError: two do; the message names them and says why.
    """
    for refusal in REFUSALS:
        pair = CHOICES[refusal.one], CHOICES[refusal.other]
        if all(choice.given(asked) for choice in pair):
            one, other = (choice.field if received else choice.argument for choice in pair)
            raise UsageError(
                f"{'open: ' * received}{one} and {other} cannot be combined, because "
                f"{refusal.why}; {refusal.remedy}"
            )
