"""Calls of `np.random` in an operation, and the calls that replace them.

Each name of `np.random` has a kind of draw in `stoker.compat.ffcv.draws`, in a form for one number
and a form for an array. The arguments are matched as NumPy matches them, positional or by name, on
the syntax tree; values that must be known now, such as `replace=`, are constants or variables that
the operation closes over. Runs in the script's process, once per operation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from stoker.compat.ffcv import draws

Draw = Callable[..., Any]
SIZE: Final = ("size", None)
UNIFORM: Final = ("low", 0.0), ("high", 1.0), SIZE
NORMAL: Final = ("loc", 0.0), ("scale", 1.0), SIZE
# name -> kind of draw, and its parameters with their defaults; `...` is none
DRAWS: Final[dict[str, tuple[str, tuple[tuple[str, Any], ...]]]] = {
    "random": ("uniform", (SIZE,)),
    "random_sample": ("uniform", (SIZE,)),
    "ranf": ("uniform", (SIZE,)),
    "sample": ("uniform", (SIZE,)),
    "uniform": ("uniform", UNIFORM),
    "normal": ("normal", NORMAL),
    "standard_normal": ("normal", (SIZE,)),
    "randint": ("integer", (("low", ...), ("high", None), SIZE)),
    "beta": ("beta", (("a", ...), ("b", ...), SIZE)),
}
SIDES: Final = {"rand": "uniform", "randn": "normal"}
"""Functions whose arguments are the sides of the result."""
ONE: Final[dict[str, Draw]] = {
    "uniform": draws.one_uniform,
    "normal": draws.one_normal,
    "integer": draws.one_integer,
    "beta": draws.one_beta,
    "member": draws.one_member,
    "weighted": draws.one_weighted,
}
MANY: Final[dict[str, Draw]] = {
    "uniform": draws.many_uniform,
    "normal": draws.many_normals,
    "integer": draws.many_integers,
    "beta": draws.many_betas,
    "member": draws.many_members,
    "weighted": draws.many_weighted,
}
DISTINCT: Final[dict[str, tuple[Draw, Draw]]] = {
    "member": (draws.row_distinct, draws.batch_distinct),
    "weighted": (draws.row_weighted_distinct, draws.batch_weighted_distinct),
}
"""Choices without replacement, which draw from one row, and their forms for batch ops."""
ORDERS: Final[dict[str, tuple[Draw, Draw]]] = {
    "permutation": (draws.row_permutation, draws.batch_permutation),
    "shuffle": (draws.row_shuffle, draws.batch_shuffle),
}
"""Functions of one argument that draw from one row, and their forms for batch ops."""
COMPILED: Final[tuple[Draw, ...]] = (
    *ONE.values(),
    *MANY.values(),
    *(f for pair in (*ORDERS.values(), *DISTINCT.values()) for f in pair),
    draws.seed_rows,
)
"""All functions that a rewritten function may call."""
CHOICE: Final = ("a", "size", "replace", "p")
NAMES: Final = (*SIDES, *DRAWS, "choice", *ORDERS, "seed")
"""The supported functions of `np.random`."""


class Misuse(Exception):
    """A call whose arguments cannot be bound to a row; the message names call and remedy."""


class Replacement(NamedTuple):
    """What replaces a call.

    Attributes:
        function: of `draws`, called with the keys and counts of the rows before its arguments.
        arguments: the rest of its arguments.
        by_row: whether it draws for a single row, so the operation must get one row at a time.
    """

    function: Draw
    arguments: list[ast.expr]
    by_row: bool


def replacement(
    node: ast.Call, name: str, value: Callable[[ast.expr], Any], *, mixes: bool
) -> Replacement:
    """Return what replaces a call.

    Args:
        node: the call.
        name: the function of `np.random` that it calls, one of `NAMES`.
        value: returns the value of an expression if it is known now, otherwise None.
        mixes: whether the operation gets all rows at once and may mix them.

    Raises:
        Misuse: its arguments do not fit.
    """
    if any(isinstance(a, ast.Starred) for a in node.args) and name not in SIDES:
        raise Misuse(f"{ast.unparse(node)}: expected explicit arguments, got a starred one")
    if name == "seed":
        return Replacement(draws.seed_rows, [_seed(node)], by_row=True)
    if name in ORDERS:
        return Replacement(ORDERS[name][mixes], [_named(node, name, ("x",), 1)["x"]], by_row=True)
    if name == "choice":
        return _choice(node, value, mixes=mixes)
    kind, arguments, size = _arguments(node, name)
    return _draw(kind, arguments, size)


def _draw(kind: str, arguments: list[ast.expr], size: ast.expr | None) -> Replacement:
    if size is None:
        return Replacement(ONE[kind], arguments, by_row=True)
    return Replacement(MANY[kind], [*arguments, size], by_row=False)


def _seed(node: ast.Call) -> ast.expr:
    """Return the number that a call of `seed` gets."""
    given = _named(node, "seed", ("seed",), 0)
    if "seed" not in given:
        raise Misuse(
            f"{ast.unparse(node)}: expected a number, such as indices[i]; without one the "
            "draws would differ from run to run"
        )
    return given["seed"]


def _choice(node: ast.Call, value: Callable[[ast.expr], Any], *, mixes: bool) -> Replacement:
    given = _named(node, "choice", CHOICE, 1)
    again = given.get("replace", ast.Constant(value=True))
    replaces = again.value if isinstance(again, ast.Constant) else value(again)
    if not isinstance(replaces, bool):
        raise Misuse(
            f"{ast.unparse(node)}: expected replace to be True, False or a variable of "
            f"generate_code with one of them, got {ast.unparse(again)}"
        )
    kind = "weighted" if "p" in given else "member"
    arguments = [given["a"], given.get("p", ast.Constant(None))]
    if replaces or "size" not in given:
        return _draw(kind, arguments, given.get("size"))
    return Replacement(DISTINCT[kind][mixes], [*arguments, given["size"]], by_row=True)


def _arguments(node: ast.Call, name: str) -> tuple[str, list[ast.expr], ast.expr | None]:
    """Return the kind of a draw, its two numbers, and the size of its result, if any."""
    numbers: list[ast.expr] = [ast.Constant(0.0), ast.Constant(1.0)]
    if name in SIDES:
        sides = ast.Tuple(list(node.args), ast.Load()) if node.args else None
        return SIDES[name], numbers, sides
    kind, parameters = DRAWS[name]
    if name == "randint" and any(keyword.arg == "dtype" for keyword in node.keywords):
        raise Misuse(f"{ast.unparse(node)}: the dtype is always int64; leave it out and cast")
    least = sum(default is ... for _, default in parameters)
    given = _named(node, name, [p for p, _ in parameters], least)
    named = [given.get(p, ast.Constant(d)) for p, d in parameters if p != "size"]
    if name == "randint" and "high" not in given:
        named = [ast.Constant(0), given["low"]]
    return kind, named or numbers, given.get("size")


def _named(node: ast.Call, name: str, parameters: Sequence[str], least: int) -> dict[str, ast.expr]:
    """Return the arguments of a call by name, without those that are None.

    The first `least` parameters have no default.
    """
    given = dict(zip(parameters, node.args, strict=False))
    given.update({keyword.arg or "": keyword.value for keyword in node.keywords})
    if (
        set(given) - set(parameters)
        or len(node.args) > len(parameters)
        or not given.keys() >= set(parameters[:least])
    ):
        raise Misuse(f"{ast.unparse(node)}: the arguments do not match the parameters of {name}")
    return {name: value for name, value in given.items() if not _is_none(value)}


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
