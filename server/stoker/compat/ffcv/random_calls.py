"""Calls of `np.random` and `random` in an operation, and the calls that replace them.

Each name of them has a kind of draw in `stoker.compat.ffcv.row_draws`, in a form for one number
and a form for an array. The arguments are matched as NumPy matches them, positional or by name, on
the syntax tree; values that must be known now, such as `replace=`, are constants or variables that
the operation closes over. Runs in the script's process, once per operation.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from stoker.compat.ffcv import row_draws

Draw = Callable[..., Any]
SIZE: Final = ("size", None)
UNIFORM: Final = ("low", 0.0), ("high", 1.0), SIZE
NORMAL: Final = ("loc", 0.0), ("scale", 1.0), SIZE
Law = tuple[str, tuple[tuple[str, Any], ...]]
"""Kind of draw, and its parameters with their defaults; `...` is none."""
DRAWS: Final[dict[str, Law]] = {
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
GAUSS: Final = ("mu", 0.0), ("sigma", 1.0)
PYTHONS: Final[dict[str, Law]] = {
    "random": ("uniform", ()),
    "uniform": ("uniform", (("a", ...), ("b", ...))),
    "randint": ("integer", (("a", ...), ("b", ...))),
    "gauss": ("normal", GAUSS),
    "normalvariate": ("normal", GAUSS),
    "betavariate": ("beta", (("alpha", ...), ("beta", ...))),
}
"""The functions of Python's `random` that draw one number."""
PYTHON_NAMES: Final = (*PYTHONS, "choice", "shuffle", "seed")
"""The supported functions of Python's `random`."""
SIDES: Final = {"rand": "uniform", "randn": "normal"}
"""Functions whose arguments are the sides of the result."""
ONE: Final[dict[str, Draw]] = {
    "uniform": row_draws.one_uniform,
    "normal": row_draws.one_normal,
    "integer": row_draws.one_integer,
    "beta": row_draws.one_beta,
    "member": row_draws.one_member,
    "weighted": row_draws.one_weighted,
}
MANY: Final[dict[str, Draw]] = {
    "uniform": row_draws.many_uniform,
    "normal": row_draws.many_normals,
    "integer": row_draws.many_integers,
    "beta": row_draws.many_betas,
    "member": row_draws.many_members,
    "weighted": row_draws.many_weighted,
}
DISTINCT: Final[dict[str, tuple[Draw, Draw]]] = {
    "member": (row_draws.row_distinct, row_draws.batch_distinct),
    "weighted": (row_draws.row_weighted_distinct, row_draws.batch_weighted_distinct),
}
"""Choices without replacement, which draw from one row, and their forms for batch ops."""
ORDERS: Final[dict[str, tuple[Draw, Draw]]] = {
    "permutation": (row_draws.row_permutation, row_draws.batch_permutation),
    "shuffle": (row_draws.row_shuffle, row_draws.batch_shuffle),
}
"""Functions of one argument that draw from one row, and their forms for batch ops."""
COMPILED: Final[tuple[Draw, ...]] = (
    *ONE.values(),
    *MANY.values(),
    *(f for pair in (*ORDERS.values(), *DISTINCT.values()) for f in pair),
    row_draws.seed_rows,
    row_draws.seed_shared,
    row_draws.drawing,
)
"""All functions that a rewritten function may call."""
CHOICE: Final = ("a", "size", "replace", "p")
NAMES: Final = (*SIDES, *DRAWS, "choice", *ORDERS, "seed")
"""The supported functions of `np.random`."""


class Misuse(Exception):
    """A call whose arguments cannot be bound to a row; the message names call and remedy."""


class Replacement(NamedTuple):
    """The replacement of a call.

    Attributes:
        function: of `draws`, called with the keys and counts of the rows before its arguments.
        arguments: the rest of its arguments.
        by_row: whether it draws for a single row, so the operation must get one row at a time.
        size: the size of an array that it draws; None: a single number, or an order.
    """

    function: Draw
    arguments: list[ast.expr]
    by_row: bool
    size: ast.expr | None = None


class Setting(NamedTuple):
    """The context of a call.

    Attributes:
        value: returns the value of an expression if it is known now, otherwise None.
        mixes: whether the operation gets all rows at once and may mix them.
        is_own: whether a number comes from the row that a loop is at.
    """

    value: Callable[[ast.expr], Any]
    mixes: bool
    is_own: Callable[[ast.expr], bool]


def replacement(node: ast.Call, name: str, setting: Setting) -> Replacement:
    """Return what replaces a call.

    Args:
        node: the call.
        name: the function of `np.random` that it calls, one of `NAMES`.
        setting: what is known besides.

    Raises:
        Misuse: its arguments do not fit.
    """
    if any(isinstance(a, ast.Starred) for a in node.args) and name not in SIDES:
        raise Misuse(f"{ast.unparse(node)}: expected explicit arguments, got a starred one")
    if name == "seed":
        return _seed(node, "seed", setting)
    if name in ORDERS:
        return _order(node, name, setting)
    if name == "choice":
        return _choice(node, setting)
    kind, arguments, size = _arguments(node, name)
    return _draw(kind, arguments, size)


def python_replacement(node: ast.Call, name: str, setting: Setting) -> Replacement:
    """Return what replaces a call of a function of Python's `random`, one of `PYTHON_NAMES`.

    Raises:
        Misuse: its arguments do not fit.
    """
    if any(isinstance(a, ast.Starred) for a in node.args):
        raise Misuse(f"{ast.unparse(node)}: expected explicit arguments, got a starred one")
    if name == "seed":
        return _seed(node, "a", setting)
    if name == "shuffle":
        return _order(node, name, setting)
    if name == "choice":
        seq = _named(node, name, ("seq",), 1)["seq"]
        return Replacement(row_draws.one_member, [seq, ast.Constant(None)], by_row=True)
    kind, parameters = PYTHONS[name]
    given = _named(node, name, [p for p, _ in parameters], sum(d is ... for _, d in parameters))
    numbers = [given.get(p, ast.Constant(d)) for p, d in parameters]
    if name == "randint":  # Python's includes its upper end
        numbers[1] = ast.BinOp(numbers[1], ast.Add(), ast.Constant(1))
    return _draw(kind, numbers or [ast.Constant(0.0), ast.Constant(1.0)], None)


def _order(node: ast.Call, name: str, setting: Setting) -> Replacement:
    found = ORDERS[name][setting.mixes]
    return Replacement(found, [_named(node, name, ("x",), 1)["x"]], by_row=True)


def _draw(kind: str, arguments: list[ast.expr], size: ast.expr | None) -> Replacement:
    if size is None:
        return Replacement(ONE[kind], arguments, by_row=True)
    return Replacement(MANY[kind], [*arguments, size], by_row=False, size=size)


def _seed(node: ast.Call, parameter: str, setting: Setting) -> Replacement:
    """Return what seeds: a row with a number of its own, or rows in all pipelines alike."""
    given = _named(node, "seed", (parameter,), 0)
    if parameter not in given:
        raise Misuse(
            f"{ast.unparse(node)}: expected a number, such as indices[i]; without one the "
            "draws would differ from run to run"
        )
    number = given[parameter]
    function = row_draws.seed_rows if setting.is_own(number) else row_draws.seed_shared
    return Replacement(function, [number], by_row=True)


def _choice(node: ast.Call, setting: Setting) -> Replacement:
    given = _named(node, "choice", CHOICE, 1)
    again = given.get("replace", ast.Constant(value=True))
    replaces = again.value if isinstance(again, ast.Constant) else setting.value(again)
    if not isinstance(replaces, bool):
        raise Misuse(
            f"{ast.unparse(node)}: expected replace to be True, False or a variable of "
            f"generate_code with one of them, got {ast.unparse(again)}"
        )
    kind = "weighted" if "p" in given else "member"
    arguments = [given["a"], given.get("p", ast.Constant(None))]
    if replaces or "size" not in given:
        return _draw(kind, arguments, given.get("size"))
    return Replacement(DISTINCT[kind][setting.mixes], [*arguments, given["size"]], by_row=True)


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
