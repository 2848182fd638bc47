"""The Loader's signature and docstring say what the declarations of a stream's options say."""

import inspect
import re
import typing

import pytest

from stoker.client import Loader, Shuffle
from stoker.client.argument_types import EvaluationArguments, LoaderArguments
from stoker.protocol.request.stream_arguments import stream_request
from stoker.protocol.request.stream_options import (
    STREAM_OPTIONS,
    ChoiceKind,
    IntegerKind,
    OtherKind,
    SwitchKind,
)
from stoker.protocol.request.stream_request import BatchRequest, SourceRequest, StreamRequest

NO_OPTIONS_OF_A_STREAM = {
    "self", "address_or_path", "unknown",
    "dataset", "pipeline",  # what a stream reads, and through what; commands take them as arguments
    "last",  # "short" is done by the Loader; the rest of it is `drop_last`
    "rank", "world_size",  # the part of a batch that this process gets
    "device", "on_device", "prefetch", "group", "workers", "as_tuple", "as_dict", "verify", "name",
    "connection",
}  # fmt: skip
"""Arguments that change no byte of a stream, with those that are declared elsewhere."""


def texts(documented: type) -> dict[str, str]:
    """Name of an argument -> its text in a docstring, in one line."""
    lines = inspect.getdoc(documented).split("\n")
    found: dict[str, str] = {}
    name = None
    for line in lines:
        if match := re.fullmatch(r" {4}(\w+): (.*)", line):
            name, found[match[1]] = match[1], match[2]
        elif line.startswith(" " * 8) and name:
            found[name] += " " + line.strip()
    return found


def of(name: str) -> tuple[inspect.Parameter, str, object]:
    """The parameter of an option, its text, and its type."""
    owner = Shuffle if name.startswith("Shuffle.") else Loader
    name = name.rpartition(".")[2]
    parameter = inspect.signature(owner).parameters[name]
    types = typing.get_type_hints(owner.__init__ if owner is Loader else owner)
    return parameter, texts(owner)[name], types[name]


@pytest.mark.parametrize("name", STREAM_OPTIONS)
def test_an_argument_is_as_its_option_is_declared(name: str) -> None:
    option = STREAM_OPTIONS[name]
    parameter, text, annotation = of(name)
    assert parameter.default == option.default
    assert text.startswith(option.meaning), "its text in the docstring begins with the meaning"
    match option.kind:
        case IntegerKind(optional=optional):
            assert annotation == (int | None if optional else int)
        case SwitchKind():
            assert annotation in (bool, bool | Shuffle)
        case ChoiceKind(words):
            assert annotation is str
            assert all(f'"{word}"' in text for word in words)
        case OtherKind():
            assert option.default is None


def test_the_loader_has_the_declared_options_alone() -> None:
    """Each new argument is declared, or is listed here as one that changes no byte."""
    arguments = set(inspect.signature(Loader.__init__).parameters) - NO_OPTIONS_OF_A_STREAM
    fields = {f"Shuffle.{name}" for name in inspect.signature(Shuffle).parameters} - {
        "Shuffle.samples"  # that is `shuffle`
    }
    assert arguments | fields == STREAM_OPTIONS.keys()


def test_type_checkers_know_the_declared_options() -> None:
    known = LoaderArguments.__annotations__.keys() | EvaluationArguments.__annotations__.keys()
    assert {name for name in STREAM_OPTIONS if "." not in name} <= known


def test_defaults_leave_their_fields_out_of_the_record() -> None:
    """So OPEN carries what a caller gives, and no more."""
    sources = (SourceRequest(dataset="photos", pipeline="train"),)
    expected = StreamRequest(sources=sources, batch=BatchRequest(positions=4))
    assert stream_request("photos", "train", {"batch_size": 4}) == expected
