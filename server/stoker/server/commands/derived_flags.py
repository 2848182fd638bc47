"""Flags that are made from declarations, in place of one parameter of a command."""

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

Command = Callable[..., None]


def flag_parameter(
    name: str, annotation: Any, *flag: str, default: object = None, **marks: Any
) -> inspect.Parameter:
    """Return a parameter of a command, as Typer reads it.

    Args:
        name: of the parameter.
        annotation: type of its values.
        flag: as it is written, such as "--shuffle/--no-shuffle"; none: after the parameter's name.
        default: its default; `inspect.Parameter.empty` for a flag that must be given.
        marks: further arguments of `typer.Option`, such as `help`.
    """
    if default is None:
        annotation = annotation | None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default,
        annotation=Annotated[annotation, typer.Option(*flag, **marks)],
    )  # fmt: skip


def with_flags(
    command: Command,
    replaced: str,
    flags: Sequence[inspect.Parameter],
    collect: Callable[[Mapping[str, Any]], object],
) -> Command:
    """Return a command with flags in place of one of its parameters.

    Args:
        command: the command.
        replaced: the parameter that is not a flag.
        flags: those in its place.
        collect: takes the values of the flags by name, and returns that of the parameter.
    """
    own = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for one in own.parameters.values():
        kept = one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        parameters += flags if one.name == replaced else [kept]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        values = {flag.name: given.pop(flag.name) for flag in flags}
        command(**{replaced: collect(values)}, **given)

    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    return run
