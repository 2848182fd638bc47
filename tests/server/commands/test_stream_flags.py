"""Each option of a stream is a flag of the commands that show streams, as it is declared."""

import importlib

import pytest
import typer
from commands import call

from stoker.protocol.request.stream_options import STREAM_OPTIONS, IntegerKind, StreamOption
from stoker.server.__main__ import COMMANDS

SHOWING = ("replay", "preview", "buckets", "bench")
"""Commands about a stream; `explain` and `warm` are about a pipeline."""
WITHOUT_FLAG = {
    "batch_size": "it counts per rank; --batch-size is global_batch_size",
    "params": "a replay always shows the draws",
}
"""Option -> why no command has a flag for it."""
LEFT_OUT = {
    ("buckets", "mix"): "the report lists the samples of one dataset",
    ("buckets", "buckets"): "each of their arguments is a flag",
    ("buckets", "views"): "they change no bucket",
    ("buckets", "freeze"): "a draw changes no bucket",
    ("buckets", "total_epochs"): "a draw changes no bucket",
    ("buckets", "on_error"): "no sample is read",
    ("bench", "mix"): "its private daemon serves one dataset",
    ("bench", "drop_last"): "it stops in the middle of an epoch",
}
"""(Command, option) -> why this command has no flag for it."""
OWN = {
    "replay": "--id --epoch --visit --view --step --progress --out --params-only --json --bucket "
    "--python-path --dataset --pipeline",
    "preview": "--out --ids --columns --epoch --output --bucket --python-path --dataset --pipeline",
    "buckets": "--max-area --divisor --min-side --max-side --max-ratio --size --upscale "
    "--cut-weight --resize --field --lengths --multiple --bound --max-length --longer --leftovers "
    "--constant --min-rows --max-rows --epochs --first-epoch --plot --json",
    "bench": "--workers --seconds --target --torch --plot --json --python-path",
}
"""Command -> its flags that are no options of a stream."""


def flags_of(command: str) -> dict[str, object]:
    """Flag -> its parameter, as Typer makes them for the command line."""
    module, attribute = COMMANDS[command]
    single = typer.Typer(add_completion=False)
    single.command()(getattr(importlib.import_module(module), attribute))
    made = typer.main.get_command(single)
    return {one.opts[0]: one for one in made.params if one.param_type_name == "option"}


def expected(command: str) -> dict[str, StreamOption]:
    """Flag -> the option that it stands for."""
    return {
        option.flag: option
        for name, option in STREAM_OPTIONS.items()
        if name not in WITHOUT_FLAG and (command, name) not in LEFT_OUT
    }


@pytest.mark.parametrize("command", SHOWING)
def test_a_command_has_a_flag_for_each_option_and_no_other(command: str) -> None:
    flags = flags_of(command).keys() - {"--help"}
    assert flags == expected(command).keys() | set(OWN[command].split())


@pytest.mark.parametrize("command", SHOWING)
def test_the_help_of_a_flag_is_the_meaning_of_its_option(command: str) -> None:
    flags = flags_of(command)
    for flag, option in expected(command).items():
        assert flags[flag].help.startswith(option.help), flag


def test_the_exceptions_are_options() -> None:
    assert WITHOUT_FLAG.keys() | {name for _, name in LEFT_OUT} <= STREAM_OPTIONS.keys()


INTEGERS = {
    option.flag: option.kind
    for option in STREAM_OPTIONS.values()
    if option.flag and isinstance(option.kind, IntegerKind)
}


@pytest.mark.parametrize("flag", INTEGERS)
def test_an_integer_out_of_bounds_names_the_flag_and_the_bound(flag: str) -> None:
    base = ["replay", "m:a", "d", "--id=0", "--epoch=0"]
    for value, said in [
        (INTEGERS[flag].low - 1, f"greater than or equal to {INTEGERS[flag].low}"),
        (INTEGERS[flag].high + 1, f"less than or equal to {INTEGERS[flag].high}"),
    ]:
        code, _, errors = call(*base, f"{flag}={value}", COLUMNS="200")
        assert code == 2
        assert f"'{flag}'" in errors
        assert said in errors
