"""Uses of a value that Python decides at once and a pipeline cannot; errors name the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

from stoker.pipeline.graph.sites import Site, user_site
from stoker.protocol.errors import BuildError

_FUNCTION = "call a function of your own, as in ops.python(function, value)"


def fault(message: str, site: Site | None = None, **details: str | int) -> BuildError:
    """Return a BuildError that begins with the user's file and line."""
    site = user_site() if site is None else site
    return BuildError(f"{site}: {message}", file=site.file, line=site.line, **details)


class Refusals:
    """Uses of a value that is not known yet; `what` names the value in messages."""

    what: str

    def __bool__(self) -> bool:
        raise fault(
            f"{self.what} is decided for each sample, so Python cannot branch on it here. In a "
            "`def` under @pipeline `if`, the ternary, `and`, `or` and `not` are rewritten for you; "
            "put @branching over a helper function that branches, and make a lambda a `def`. For "
            "max(a, b) write `a if a > b else b`"
        )

    def __iter__(self) -> Iterator[Any]:
        raise fault(
            f"{self.what} cannot be iterated over or unpacked: a pipeline describes one sample at "
            "a time. Name elements, as in box[0] and box[1]; write value.sum(), value.any(), "
            "value.all(), value.max() and value.min() for the functions of Python"
        )

    def __contains__(self, _: object) -> bool:
        raise fault(f"`in` {self.what}: write (value == number).any()")

    def __len__(self) -> int:
        raise fault(
            f"{self.what} has no length yet: `.count` is the number of boxes or keypoints, "
            "`.height` and `.width` are the sides of an image or mask, `.shape[0]` is the length "
            "of an array"
        )

    def _no_call(self, *_: object, **__: object) -> NoReturn:
        raise fault(
            f"{self.what} is a value of each sample, not a function: leave the parentheses out, as "
            "in sample.boxes.count"
        )

    __call__ = _no_call

    def __setitem__(self, *_: object) -> NoReturn:
        raise fault(
            f"{self.what}: its elements cannot be assigned or deleted, as values never change: "
            f"compute a new array, as in value * 2, or {_FUNCTION}"
        )

    __delitem__ = __setitem__

    def __format__(self, spec: str) -> str:
        raise fault(
            f"{self.what} differs per sample, so an f-string cannot hold it: compare it with a "
            f"number instead, or {_FUNCTION}"
        )

    def _as_number(self, *_: object) -> NoReturn:
        raise fault(
            f"{self.what} differs per sample, so it has no Python value while the pipeline is "
            "traced: use it in + - * / // %, in comparisons, and in the returned dict. float(x), "
            "int(x) and bool(x) can be left out, since dtypes are promoted; for math.sqrt(x), "
            f"round(x) and the like, {_FUNCTION}"
        )

    __int__ = __float__ = __complex__ = __index__ = __round__ = _as_number
    __trunc__ = __floor__ = __ceil__ = _as_number

    def __abs__(self) -> NoReturn:
        raise fault(f"abs({self.what}): write `x if x > 0 else -x` for a number, or {_FUNCTION}")

    def _no_operator(self, *_: object) -> NoReturn:
        raise fault(
            f"{self.what} takes + - * / // %, comparisons, & | ~ and `and`, `or`, `not`: write "
            f"x * x for x ** 2; for other operators, {_FUNCTION}"
        )

    __pow__ = __rpow__ = __xor__ = __rxor__ = __lshift__ = __rlshift__ = _no_operator
    __rshift__ = __rrshift__ = __matmul__ = __rmatmul__ = __divmod__ = __rdivmod__ = _no_operator
    __pos__ = _no_operator

    def __array__(self, *_: object, **__: object) -> Any:
        raise fault(
            f"{self.what} has no pixels yet: NumPy cannot be called inside a pipeline. Use + - *, "
            f"comparisons and value.sum(), value.any() and the like, or {_FUNCTION}, which runs "
            "it for each sample"
        )
