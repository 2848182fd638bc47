"""The functions that users call, `ops.rgb_shift(image, p=0.9)`, made from the op classes.

A function has the parameters of its class as keywords, `stream` and `relative` where the op takes
them, and a docstring from the declaration. Runs in the author's process, while a pipeline is
traced.
"""

import difflib
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter
from typing import Annotated, Any, Final, get_args, get_origin

from stoker.ops.contract.op import Op, Value
from stoker.ops.contract.parameters import meanings_of, rules_of, types_of

OPTIONS: Final = {
    "stream": Parameter("stream", Parameter.KEYWORD_ONLY, default=None, annotation=str | None),
    "relative": Parameter("relative", Parameter.KEYWORD_ONLY, default=False, annotation=bool),
}
"""What `Op.__call__` takes besides values."""


@dataclass(frozen=True)
class FunctionCall:
    """A call of an op's function: calling it with an op class applies such an op.

    Attributes:
        values: what the op is applied to.
        parameters: what the op is made of, by name.
        options: `stream` and `relative`, as far as they are given.
    """

    values: tuple[Value, ...]
    parameters: Mapping[str, Any]
    options: Mapping[str, Any]

    def __call__(self, cls: type[Op], **more: Any) -> Any:
        """Make the op, of more parameters, and apply it; returns its results."""
        return cls(**self.parameters, **more)(*self.values, **self.options)


def function(cls: type[Op]) -> Callable[..., Any]:
    """Return the function of an op class."""
    return calls(cls)(lambda call: call(cls))


def calls(
    cls: type[Op], *, without: tuple[str, ...] = ()
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator of a function that does more than to apply an op.

    It gets a `FunctionCall` and the keywords that it declares after it, which are added to the
    parameters of the op, except those in `without`, which the function gives itself:

        @calls(Rotate)
        def rotate(call: FunctionCall, expand: bool = False) -> Any:
            return call(RotateExpand if expand else Rotate)
    """

    def decorate(apply: Callable[..., Any]) -> Callable[..., Any]:
        more = list(inspect.signature(apply).parameters.values())[1:]
        every = {one.name: one for one in _keywords(cls, more)}
        keywords = {name: one for name, one in every.items() if name not in without}

        def op_function(*values: Any, **given: Any) -> Any:
            _require(cls.name, keywords, given)
            extra = {one.name: given.pop(one.name) for one in more if one.name in given}
            options = {name: given.pop(name) for name in OPTIONS if name in given}
            return apply(FunctionCall(values, given, options), **extra)

        start = Parameter("values", Parameter.VAR_POSITIONAL, annotation=Value)
        op_function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [start, *keywords.values()], return_annotation=Any
        )
        op_function.__name__ = op_function.__qualname__ = cls.name
        op_function.__module__ = cls.__module__
        op_function.__doc__ = _docstring(cls, apply.__doc__)
        return op_function

    return decorate


def _keywords(cls: type[Op], more: list[Parameter]) -> Iterator[Parameter]:
    """Yield the keywords of an op's function, in order."""
    kinds = types_of(cls)
    for field in fields(cls):
        default = Parameter.empty if field.default is MISSING else field.default
        kind = kinds[field.name]
        kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        yield Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
    yield from (one.replace(kind=Parameter.KEYWORD_ONLY) for one in more)
    yield from (OPTIONS[name] for name in cls.call_options)


def _require(op: str, keywords: Mapping[str, Parameter], given: Mapping[str, Any]) -> None:
    """Refuse unknown and missing keywords.

    Raises:
        TypeError: names the keyword.
    """
    for name in given:
        if name not in keywords:
            near = difflib.get_close_matches(name, keywords, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"expected {', '.join(keywords)}"
            raise TypeError(f"{op}() got an unexpected keyword argument {name!r}; {meant}")
    for name, keyword in keywords.items():
        if keyword.default is Parameter.empty and name not in given:
            raise TypeError(f"{op}() needs the keyword argument {name!r}")


def described(cls: type[Op]) -> str:
    """Return a line on each declared parameter of an op class: what it means, what is allowed."""
    rules = rules_of(cls)
    lines = [
        f"    {name}: {meaning}; {rules[name].text}."
        if name in rules
        else f"    {name}: {meaning}."
        for name, meaning in meanings_of(cls).items()
    ]
    return "\n".join(lines)


def _docstring(cls: type[Op], more: str | None) -> str:
    """Return the docstring of an op's function."""
    about = inspect.cleandoc(cls.__doc__ or "").split("\n\nAttributes:", 1)[0]
    parts = [(more and inspect.cleandoc(more)) or about, f"See `{cls.__name__}`."]
    arguments = described(cls)
    parts.append(f"Args:\n    values: values of a pipeline.\n{arguments}" if arguments else "")
    return "\n\n".join(part for part in parts if part)
