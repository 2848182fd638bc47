"""Parameters that stand for an op: in tests, and where kernels are compiled before anyone asks."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from stoker.ops.contract.op import Op


def required_of(cls: type[Op]) -> list[str]:
    """Return the parameters without a default."""
    return [f.name for f in fields(cls) if f.default is f.default_factory is MISSING]


def examples_of(cls: type[Op]) -> tuple[Mapping[str, Any], ...]:
    """Return the examples of an op class: those that it names, or what follows from its parameters.

    Raises:
        ValueError: a parameter has no default, and the class names no examples.
    """
    if cls.examples:
        return cls.examples
    if missing := required_of(cls):
        raise ValueError(f"{cls.name} needs {', '.join(missing)}: give the class `examples`")
    by_chance = any(field.name == "p" for field in fields(cls))
    return ({"p": 0.9}, {"p": 0.5}) if by_chance else ({},)


def smallest_of(cls: type[Op]) -> dict[str, Any]:
    """Return values for the parameters without a default, or None, from the first example."""
    first, absent = examples_of(cls)[0], (MISSING, None)
    return {f.name: first[f.name] for f in fields(cls) if f.default in absent and f.name in first}
