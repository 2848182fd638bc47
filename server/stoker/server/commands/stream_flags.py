"""The flags of the options of a stream, made from their declarations in the protocol.

A command that shows a stream is decorated with `takes_stream`, and gets a `StreamFlags`. So a new
option is a flag of all these commands, unless one of them leaves it out.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, NamedTuple

from stoker.protocol.errors import UsageError
from stoker.protocol.request.option_refusals import Asked, check_combination
from stoker.protocol.request.stream_arguments import stream_request
from stoker.protocol.request.stream_options import (
    STREAM_OPTIONS,
    ChoiceKind,
    IntegerKind,
    OtherKind,
    StreamOption,
    SwitchKind,
    read_option,
)
from stoker.protocol.request.stream_request import StreamRequest
from stoker.server.commands.derived_flags import Command, flag_parameter, with_flags
from stoker.server.commands.named_values import named

PANEL = "Options of the stream"
PATHS = "datasets"
PIPELINES = "pipelines"
_OF_MIX: dict[str, tuple[str, str]] = {
    PATHS: ("--dataset", "Of a mixture: NAME=PATH, the folder of each dataset; repeatable."),
    PIPELINES: (
        "--pipeline",
        "Of a mixture: NAME=module:attribute, instead of PIPELINE for that dataset; repeatable.",
    ),
}


class NamedStream(NamedTuple):
    """A stream as a command line describes it.

    Attributes:
        request: its record; its pipelines are `module:attribute`.
        paths: folders of its datasets, in the order of the record's sources.
    """

    request: StreamRequest
    paths: tuple[str, ...]


class StreamFlags:
    """The flags of a stream, as they were given.

    Attributes:
        written: name of an option -> its value as `read_option` takes it; those that were not given
            are left out.
    """

    def __init__(self, given: Mapping[str, Any], of_mix: Mapping[str, list[str] | None]) -> None:
        """Read the values.

        Raises:
            UsageError: one has not the form that it must have.
        """
        self._of_mix = {name: named(_OF_MIX[name][0], texts) for name, texts in of_mix.items()}
        self._datasets = tuple(named("--mix", given.get("mix"), _form("mix")))
        self.written = {
            name: _written(name, value, self._datasets)
            for name, value in given.items()
            if value is not None and value != []
        }

    def stream(self, pipeline: str, dataset: str | None, **options: object) -> NamedStream:
        """Return the stream.

        Args:
            pipeline: `module:attribute` of the pipeline.
            dataset: folder of the dataset; None for a mixture.
            options: further options of the stream, or those that a command replaces.

        Raises:
            UsageError: a value cannot be, or options exclude each other.
        """
        values = {name: read_option(name, value) for name, value in self.written.items()}
        values |= options
        paths, pipelines = self._of_mix.get(PATHS, {}), self._of_mix.get(PIPELINES, {})
        for flag, names in (("--dataset", paths), ("--pipeline", pipelines)):
            if unknown := [name for name in names if name not in self._datasets]:
                raise UsageError(
                    f"{flag} {unknown[0]}=...: expected names of --mix, "
                    f"{', '.join(self._datasets) or 'which is not given'}"
                )
        if not self._datasets:
            if dataset is None:
                raise UsageError("expected the folder of a dataset after the pipeline, or --mix")
            request = stream_request("", pipeline, values)
            check_combination(Asked(request))
            return NamedStream(request, (dataset,))
        if dataset is not None:
            raise UsageError(f"{dataset}: --mix names the datasets; leave this one out")
        if missing := [name for name in self._datasets if name not in paths]:
            raise UsageError(f"--mix {missing[0]}=...: give --dataset {missing[0]}=PATH too")
        every = {name: pipelines.get(name, pipeline) for name in self._datasets}
        request = stream_request(None, every, values)
        check_combination(Asked(request))
        return NamedStream(request, tuple(paths[name] for name in self._datasets))


def _form(name: str) -> str:
    """Return how a value is written, as errors say it: NAME=RATIO."""
    return STREAM_OPTIONS[name].written.partition(";")[0].partition(",")[0]


def _written(name: str, given: Any, datasets: Collection[str]) -> Any:
    """Return a value as `read_option` takes it: for repeated flags, the texts by name."""
    option = STREAM_OPTIONS[name]
    kind = option.kind
    if not isinstance(kind, OtherKind) or not isinstance(given, list):
        return given
    if kind.by_name:
        return named(option.flag, given, _form(name))
    texts = _of_datasets(given, datasets)
    if len(texts) == len(given):
        return texts
    if len(given) == 1:
        return given[0]
    what = "expected NAME=VALUE, with names of --mix" if datasets else "give it once"
    raise UsageError(f"{option.flag} {given[-1]}: {what}")


def _of_datasets(given: list[str], datasets: Collection[str]) -> dict[str, str]:
    """Return the values that are for one dataset of a mixture: NAME=VALUE.

    A condition such as `width == 5` is not one for the dataset "width".
    """
    parts = [text.partition("=") for text in given]
    return {name: value for name, _, value in parts if name in datasets and value[:1] not in "="}


def takes_stream(
    *without: str, mix: bool = True, **defaults: object
) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the flags of a stream's options.

    Args:
        without: options that the command has no flag for, in addition to those that never have one.
        mix: whether it takes mixtures.
        defaults: name of an option -> its default in this command.
    """
    left_out = {*without, *(() if mix else ("mix",))}
    options = {
        option.flag.removeprefix("--").replace("-", "_"): (name, option)
        for name, option in STREAM_OPTIONS.items()
        if option.flag and name not in left_out
    }
    of_mix = _OF_MIX if mix else {}
    flags = [
        _parameter(parameter, option, defaults.get(name, option.default), mix=mix)
        for parameter, (name, option) in options.items()
    ]
    flags += [
        flag_parameter(name, list[str], flag, help=text, rich_help_panel=PANEL)
        for name, (flag, text) in of_mix.items()
    ]

    def collect(given: Mapping[str, Any]) -> StreamFlags:
        values = {name: given[parameter] for parameter, (name, _) in options.items()}
        return StreamFlags(values, {name: given[name] for name in of_mix})

    return lambda command: with_flags(command, "stream", flags, collect)


def _parameter(name: str, option: StreamOption, default: object, *, mix: bool) -> inspect.Parameter:
    """Return the parameter of a command that is the flag of an option."""
    kind, text, bounds, flag = option.kind, option.help, {}, option.flag
    annotation: Any
    match kind:
        case IntegerKind():
            annotation, bounds = int, {"min": kind.low, "max": kind.high}
        case SwitchKind():
            annotation, flag = bool, f"{flag}/{flag.replace('--', '--no-', 1)}"
        case ChoiceKind():
            annotation = Literal[kind.words]
        case OtherKind():
            annotation = list[str] if kind.by_name or kind.per_dataset else str
            if mix and kind.per_dataset:
                text += " Of a mixture also NAME=VALUE; repeatable."
    return flag_parameter(
        name, annotation, flag, default=default, help=text, rich_help_panel=PANEL, **bounds
    )
