"""The options of a stream, each declared once: its type, bounds, default, meaning, and its field.

What follows from a declaration:

- `stream_arguments` checks what a Loader or a command is given, and puts it into the record;
- the commands that show a stream have a flag for it, with its help and bounds;
- a test compares it with the Loader's signature and docstring, which are written by hand.

The datasets and the pipelines of a stream are not options: every command takes them as arguments.
"""

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from stoker.protocol.errors import UsageError
from stoker.protocol.length_buckets import LengthBuckets, request_from_json
from stoker.protocol.request.argument_checks import flag, name_of, one_of, within
from stoker.protocol.size_buckets import Buckets
from stoker.protocol.spec import MAX_BATCH, MAX_ROWS, MAX_SEED, MAX_VIEWS


@dataclass(frozen=True)
class IntegerKind:
    """An integer from `low` to `high`, or None if it is `optional`."""

    low: int
    high: int
    optional: bool = False

    def check(self, name: str, value: object) -> int | None:
        """Return the value.

        Raises:
            UsageError: it is not such an integer.
        """
        if value is None and self.optional:
            return None
        return within(name, value, self.low, self.high, " or None" * self.optional)


@dataclass(frozen=True)
class SwitchKind:
    """True or False."""

    def check(self, name: str, value: object) -> bool:
        """Return the value.

        Raises:
            UsageError: it is neither.
        """
        return flag(name, value)


@dataclass(frozen=True)
class ChoiceKind:
    """One of some words."""

    words: tuple[str, ...]

    def check(self, name: str, value: object) -> str:
        """Return the value.

        Raises:
            UsageError: it is not one of the words.
        """
        return one_of(name, value, self.words)


@dataclass(frozen=True)
class OtherKind:
    """A value of another form, with a check of its own.

    Attributes:
        check: takes (name, value) and returns the value for the record, or raises a UsageError.
        read: takes what a user writes on a command line, and returns the value.
        by_name: whether the value is a mapping, whose flag is NAME=VALUE, once for each name.
        per_dataset: whether each dataset of a mixture may have a value of its own.
    """

    check: Callable[[str, object], Any] = lambda _, value: value
    read: Callable[[str], object] = lambda text: text
    by_name: bool = False
    per_dataset: bool = False


@dataclass(frozen=True, kw_only=True)
class StreamOption:
    """An option of a stream.

    Attributes:
        kind: its type and bounds.
        default: its default.
        meaning: what it is; its text in the Loader's docstring begins with it.
        written: how its value is written on a command line; empty: as its type says.
        flag: its flag; empty if no command has one.
        field: (record, field) of the StreamRequest that it becomes, if nothing else decides it.
    """

    kind: IntegerKind | SwitchKind | ChoiceKind | OtherKind
    default: object
    meaning: str
    written: str = ""
    flag: str = ""
    field: tuple[Literal["stream", "batch", "order", "draws"], str] | None = None

    @property
    def help(self) -> str:
        """The help of the flag: the meaning, and how the value is written."""
        text = self.meaning + (f": {self.written}" if self.written else "")
        return f"{text[0].upper()}{text[1:]}."


def _buckets(_: str, given: object) -> Buckets | LengthBuckets | None:
    if given is not None and not isinstance(given, Buckets | LengthBuckets):
        raise UsageError(
            f"buckets={given!r}: expected stoker.client.Buckets, for example "
            "Buckets(max_area=1024 * 1024), or LengthBuckets"
        )
    return given


def _freeze(_: str, freeze: object) -> dict[str, int | Literal["epoch"]]:
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


def _weights(text: str) -> object:
    """Read the name of a field, of a file, or a JSON object of weights by class."""
    if not text.lstrip().startswith("{"):
        return text
    try:
        classes = json.loads(text)
    except ValueError as error:
        raise UsageError(
            f'--weights {text!r}: expected weights of classes as JSON, such as {{"cat": 1, "dog": '
            f"3}}: {error}"
        ) from None
    return {int(name) if name.isdecimal() else name: value for name, value in classes.items()}


def _number(text: str) -> object:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def read_option(name: str, written: object) -> object:
    """Return the value of an option from what a user writes on a command line.

    Args:
        name: of the option.
        written: a text, or texts by name; or a value of another type, which is returned.

    Raises:
        UsageError: the text has another form than the option's.
    """
    kind = STREAM_OPTIONS[name].kind
    if not isinstance(kind, OtherKind):
        return written
    if isinstance(written, Mapping):
        return {one: kind.read(text) for one, text in written.items()}
    return kind.read(written) if isinstance(written, str) else written


STREAM_OPTIONS: Final[dict[str, StreamOption]] = {
    "mix": StreamOption(
        kind=OtherKind(read=_number, by_name=True),
        default=None,
        meaning="several datasets in one stream",
        written="NAME=RATIO, with --dataset; repeatable",
        flag="--mix",
    ),
    "batch_size": StreamOption(
        kind=IntegerKind(1, MAX_BATCH, optional=True),
        default=None,
        meaning="positions per rank in a batch",
    ),
    "global_batch_size": StreamOption(
        kind=IntegerKind(1, MAX_BATCH, optional=True),
        default=None,
        meaning="positions in a batch over all ranks",
        flag="--batch-size",
    ),
    "seed": StreamOption(
        kind=IntegerKind(0, MAX_SEED),
        default=0,
        meaning="seed of the shuffle and of every draw",
        flag="--seed",
        field=("draws", "seed"),
    ),
    "shuffle": StreamOption(
        kind=SwitchKind(),
        default=True,
        meaning="whether each epoch has its own order",
        flag="--shuffle",
        field=("order", "shuffle"),
    ),
    "Shuffle.seed": StreamOption(
        kind=IntegerKind(0, MAX_SEED, optional=True),
        default=None,
        meaning="seed of the order",
        flag="--shuffle-seed",
        field=("order", "seed"),
    ),
    "Shuffle.block_size": StreamOption(
        kind=IntegerKind(1, MAX_ROWS, optional=True),
        default=None,
        meaning="samples in a block of neighbors",
        flag="--shuffle-block-size",
        field=("order", "block"),
    ),
    "drop_last": StreamOption(
        kind=SwitchKind(),
        default=True,
        meaning="whether an incomplete last batch is dropped",
        flag="--drop-last",
    ),
    "on_error": StreamOption(
        kind=ChoiceKind(("raise", "replace", "mask")),
        default="raise",
        meaning="what happens to a sample that cannot be used",
        flag="--on-error",
        field=("batch", "on_error"),
    ),
    "exclude": StreamOption(
        kind=OtherKind(per_dataset=True),
        default=None,
        meaning="samples to leave out",
        written="a file that lists their ids",
        flag="--exclude",
    ),
    "subset": StreamOption(
        kind=OtherKind(per_dataset=True),
        default=None,
        meaning="the only samples to visit",
        written="a split, a condition, or a file of ids",
        flag="--subset",
    ),
    "weights": StreamOption(
        kind=OtherKind(read=_weights, per_dataset=True),
        default=None,
        meaning="how often each sample comes",
        written='a field, a file of weights, or JSON of classes such as {"cat": 3}',
        flag="--weights",
    ),
    "views": StreamOption(
        kind=IntegerKind(1, MAX_VIEWS),
        default=1,
        meaning="rows per position, each with its own draws",
        flag="--views",
        field=("batch", "views"),
    ),
    "freeze": StreamOption(
        kind=OtherKind(_freeze, _number, by_name=True),
        default=None,
        meaning="draws that stay the same",
        written="NAME=NUMBER or NAME=epoch; repeatable",
        flag="--freeze",
        field=("draws", "freeze"),
    ),
    "total_epochs": StreamOption(
        kind=IntegerKind(1, MAX_ROWS, optional=True),
        default=None,
        meaning="length of schedules, for pipelines that read it",
        flag="--total-epochs",
        field=("draws", "total_epochs"),
    ),
    "buckets": StreamOption(
        kind=OtherKind(_buckets, request_from_json),
        default=None,
        meaning="batches of one size each",
        written='arguments of Buckets or LengthBuckets as JSON, such as {"max_area": 65536}',
        flag="--buckets",
        field=("order", "buckets"),
    ),
    "params": StreamOption(
        kind=SwitchKind(),
        default=False,
        meaning="whether every batch has its draw records",
        field=("stream", "params"),
    ),
}
"""Name of a Loader's argument, or of a field of its record `Shuffle` -> its declaration."""
