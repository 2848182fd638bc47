"""The registry: op name -> op class. Op modules fill it on import, all others only read it.

The package names the modules of its op files (`name_files`). A lookup imports the one that it
needs. A list imports all, and is in the order of modules, whichever was imported first.

A name can be registered once. Earlier versions of an op may be registered too
(`register_earlier`): a graph that names one is bound to it, and authors choose it with `at`. The
contract tests run over all registered ops. User ops are not registered: their names are
`module:Class` (`stoker.jit.named`), and their contract tests are `stoker.ops.testing.check_op`.
"""

import dataclasses
import difflib
import importlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar, cast, dataclass_transform

from stoker.jit.named import reference, resolve
from stoker.ops.contract.op import Op
from stoker.ops.contract.states import ParameterError
from stoker.protocol.canonical import Canonical
from stoker.protocol.errors import BuildError, UnknownNameError, VersionError

_OPS: dict[str, type[Op]] = {}
_EARLIER: dict[tuple[str, int], type[Op]] = {}
_FILES: dict[str, str] = {}
"""Op -> the module that registers it when it is imported."""
_UNLISTED: set[str] = set()
_BATCH: set[str] = set()
T = TypeVar("T", bound=type[Op])


def name_files(files: Mapping[str, str]) -> None:
    """Add modules that register the op of their name, op -> module, to be imported when needed."""
    _FILES.update(files)


@dataclass_transform(frozen_default=True)
def register(cls: T) -> T:
    """Register an op class under its name; usable as a decorator.

    The class becomes a frozen dataclass, unless it is one. Without a `name`, it gets that of the
    class in lower case: RgbShift is rgb_shift.

    Raises:
        ValueError: the name is already registered.
    """
    made = _made(cls)
    made.by_user = made.calls_python
    other = _OPS.get(made.name) or _FILES.get(made.name, made.__module__)
    if other != made.__module__:
        raise ValueError(f"op {made.name!r} is registered twice: {other} and {made}; rename one")
    _OPS[made.name] = made
    return made


def _made(cls: T) -> T:
    """Return an op class as a frozen dataclass with a name."""
    if "__dataclass_params__" not in vars(cls):
        cls = cast(T, dataclass(frozen=True)(cls))
    if getattr(cls, "name", None) is None:
        cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()
    return cls


@dataclass_transform(frozen_default=True)
def register_unlisted(cls: T) -> T:
    """Register an op class that is not listed for users.

    Either its algorithm is user code, which no contract test can know, or only plans contain it.

    Raises:
        ValueError: the name is already registered.
    """
    made = register(cls)
    _UNLISTED.add(made.name)
    return made


@dataclass_transform(frozen_default=True)
def register_batch(cls: T) -> T:
    """Register an op class that reads other rows (`bases.batch_op`), which has another contract.

    Raises:
        ValueError: the name is already registered.
    """
    made = register(cls)
    _BATCH.add(made.name)
    return made


def register_earlier(cls: T) -> T:
    """Register an earlier version of an op, for graphs and authors that name it.

    Raises:
        ValueError: that version is already registered.
    """
    _import(cls.name)
    held = _EARLIER.setdefault((cls.name, cls.version), cls)
    if held is not cls or getattr(_OPS.get(cls.name), "version", None) == cls.version:
        raise ValueError(f"version {cls.version} of op {cls.name!r} is registered twice")
    return cls


def name_of(op: Op) -> str:
    """Return the name of an op in graphs: that of the registry, or `module:Class`.

    Raises:
        BuildError: the class of a user op cannot be imported by name, by a worker for example.
    """
    cls = type(op)
    if cls in (_OPS.get(cls.name), _EARLIER.get((cls.name, cls.version))):
        return cls.name
    return reference(cls, f"op {cls.name!r}")


def lookup(name: str, version: int | None = None) -> type[Op]:
    """Return the op class of that name, registered or `module:Class`.

    Args:
        name: name of the op.
        version: an earlier version if that is registered; any other number gives the current one.

    Raises:
        UnknownNameError: no op has this name; the message has the most similar one.
        BuildError: `module:Class` may not be imported here, cannot be imported, or is not an op.
    """
    _import(name)
    if version is not None and (name, version) in _EARLIER:
        return _EARLIER[name, version]
    if ":" in name:
        return _custom(name)
    if name not in _OPS:
        _import(*_FILES)
        near = difflib.get_close_matches(name, _OPS, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(_OPS))}"
        raise UnknownNameError(f"there is no op {name!r}; {hint}", op=name)
    return _OPS[name]


def _import(*names: str) -> None:
    """Import the files of ops that are not registered yet."""
    for name in names:
        if name not in _OPS and name in _FILES:
            importlib.import_module(_FILES[name])


def _all() -> list[tuple[str, type[Op]]]:
    """Return all registered ops and their names, in the order of their modules."""
    _import(*_FILES)
    return sorted(_OPS.items(), key=lambda item: item[1].__module__)


def _custom(name: str) -> type[Op]:
    found = resolve(name)
    if not (isinstance(found, type) and issubclass(found, Op)):
        raise BuildError(f"{name!r}: expected a subclass of stoker.ops.Op", op=name)
    return found


def at(name: str, version: int) -> type[Op]:
    """Return a version of an op, to be used like its class: `at("invert", 1)(p=1.0)(image)`.

    Raises:
        UnknownNameError: there is no such op.
        VersionError: this version is not registered.
    """
    found = lookup(name, version)
    if found.version != version:
        there = sorted([found.version, *(v for n, v in _EARLIER if n == name)])
        versions = ", ".join(map(str, there))
        raise VersionError(f"op {name!r} has no version {version}; it has {versions}", op=name)
    return found


def listed() -> Mapping[str, type[Op]]:
    """Return all ops that users call by name: kernels, folds, batch ops and choices."""
    return {name: cls for name, cls in _all() if name not in _UNLISTED}


def registered() -> Mapping[str, type[Op]]:
    """Return all ops for users that have a kernel of Stoker's, by name; see `choices`."""
    return {n: cls for n, cls in _all() if cls.kernels and n not in _UNLISTED}


def folds() -> Mapping[str, type[Op]]:
    """Return all folds for users, by name."""
    return {n: cls for n, cls in _all() if cls.folds and n not in _UNLISTED}


def choices() -> Mapping[str, type[Op]]:
    """Return the registered op classes without a kernel, by name: `values.choice_ops`."""
    return {name: cls for name, cls in _all() if not cls.kinds()}


def batch_ops() -> Mapping[str, type[Op]]:
    """Return the registered op classes that read other rows, by name: `bases.batch_op`."""
    return {name: cls for name, cls in _all() if name in _BATCH}


def make(name: str, params: Mapping[str, Canonical], version: int | None = None) -> Op:
    """Build an op from its name and the plain parameters in a graph.

    Lists become tuples, because op parameters are hashable. `version` is as for `lookup`.

    Raises:
        UnknownNameError: there is no such op.
        ParameterError: a parameter is unknown, missing or out of bounds.
    """
    cls = lookup(name, version)
    values = {key: tuple(v) if isinstance(v, list) else v for key, v in params.items()}
    try:
        return cls(**values)
    except TypeError as error:
        known = ", ".join(field.name for field in dataclasses.fields(cls))
        reason = str(error).removeprefix(f"{cls.__name__}.__init__() ")
        raise ParameterError(f"{name}: {reason}; its parameters are: {known}") from None
