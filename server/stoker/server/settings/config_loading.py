"""The daemon's configuration: one frozen typed tree, merged once, handed down as arguments.

Sources, the later wins: built-in defaults < the TOML file < `STOKER_<SECTION>_<KEY>` in the
environment < command-line flags. `STOKER_JPEG` is short for `STOKER_DAEMON_JPEG`. Mappings
(`datasets`, `pipelines`) are merged name by name. Every value remembers where it came from
(`Loaded.origins`), and every mistake names that place. An unknown key is an error that names the
nearest known one; so is an environment variable that begins with `STOKER_<SECTION>_` and names no
key. Other `STOKER_` variables are left alone.

Sizes are bytes and may be written with a unit ("6 GiB", "500MB"); times are seconds. Relative paths
count from the file's folder, or from the working folder where they come from elsewhere. No other
module of the daemon reads the environment. The keys are in `config_types`, their table is in
docs/configuration.md; a test compares the two.
"""

import difflib
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, NoReturn, get_args, get_origin

import msgspec

from stoker.jit.cacheroot import default_cache_root
from stoker.protocol.analysis import analyzed
from stoker.protocol.datasets import is_live
from stoker.protocol.errors import ConfigError
from stoker.protocol.files.text import EncodingError, read_text
from stoker.server.settings import cgroup
from stoker.server.settings.config_types import (
    MAX_NAME,
    Config,
    decode_hook,
    key_types,
    setting_flags,
)
from stoker.server.settings.expected_values import expected, shown
from stoker.server.settings.toml_lines import Place, lines_of

PREFIX: Final = "STOKER_"
DEFAULT_SHARE: Final = 0.5
SHORT_NAMES: Final = {f"{PREFIX}JPEG": ("daemon", "jpeg")}
"""Variables whose names leave out the section; the full name goes before."""
_PATHS: Final = (
    ("daemon", "cache_root"), ("daemon", "key"), ("daemon", "clients"), ("metrics", "page_token"),
)  # fmt: skip


Note = Callable[[ConfigError], object]
"""Takes a mistake; it may raise it."""


class Loaded(NamedTuple):
    """The configuration, and for each key path ("workers.count") where its value came from."""

    config: Config
    origins: dict[str, str]


class _Value(NamedTuple):
    """One value of one source, not yet typed; `folder` is what relative paths count from."""

    key: tuple[str, str]
    value: object
    origin: str
    folder: Path
    text: bool = False


def raise_it(error: ConfigError) -> NoReturn:
    """Raise a mistake, for callers that need no others."""
    raise error


def load(
    file: str | os.PathLike[str] | None = None,
    flags: Mapping[str, object] | None = None,
    environment: Mapping[str, str] | None = None,
    note: Note = raise_it,
) -> Loaded:
    """Merge all sources into one configuration.

    Args:
        file: path of a TOML file; None reads the one that `STOKER_CONFIG` names, if set.
        flags: key path ("workers.count"), or section -> value, or names and values; also of keys
            that have no flag. None values are flags that were not given.
        environment: the environment; None means the process's own.
        note: called with each mistake: a source cannot be read, a key is unknown, or a value is
            wrong; the message names the place, the key and what to write instead. If it returns,
            what is wrong is left out.

    Raises:
        ConfigError: the first mistake, unless `note` takes it.
    """
    variables = os.environ if environment is None else environment
    path = file if file is not None else variables.get(f"{PREFIX}CONFIG")
    values = [
        *_defaults(variables),
        *(_from_file(Path(path), note) if path else ()),
        *_from_environment(variables, note),
        *_from_flags(flags or {}, note),
    ]
    return _merge(values, note)


def _defaults(variables: Mapping[str, str]) -> Iterable[_Value]:
    count, count_why = cgroup.cores()
    free = cgroup.room()
    computed = {
        ("daemon", "address"): (f"ipc://{_runtime_folder(variables)}/stoker.sock", ""),
        ("daemon", "cache_root"): (str(default_cache_root(variables)), ""),
        ("workers", "count"): (count, count_why),
        ("memory", "limit"): (
            max(1, int(free.size_bytes * DEFAULT_SHARE)),
            f"{DEFAULT_SHARE:.0%} of what is free by {free.limited_by}",
        ),
    }
    for key, (value, why) in computed.items():
        yield _Value(key, value, f"default ({why})" if why else "default", Path.cwd())


def _runtime_folder(variables: Mapping[str, str]) -> Path:
    if variables.get("XDG_RUNTIME_DIR"):
        return Path(variables["XDG_RUNTIME_DIR"], "stoker")
    if os.geteuid() == 0:
        return Path("/run/stoker")
    return Path(f"/tmp/stoker-{os.geteuid()}")


def _from_file(path: Path, note: Note) -> Iterable[_Value]:
    try:
        tree, lines = _read_file(path)
    except ConfigError as error:
        note(error)
        return

    def origin(section: str, key: str | None = None) -> str:
        line = lines.get((section, key)) or lines.get((section, None))
        return f"{path}:{line}" if line else str(path)

    for section, body in tree.items():
        if (unknown := _unknown_section(section, origin(section))) is not None:
            note(unknown)
        elif not isinstance(body, dict):
            note(
                ConfigError(
                    f"{origin(section)}: expected a table [{section}], got {shown(body)}",
                    file=str(path),
                    key=section,
                )
            )
        else:
            for key, value in body.items():
                yield _Value((section, key), value, origin(section, key), path.resolve().parent)


def _read_file(path: Path) -> tuple[dict[str, object], dict[Place, int]]:
    """Return the content of a file, and the lines of its keys."""
    try:
        text = read_text(path)
        return tomllib.loads(text), lines_of(text)
    except OSError as error:
        raise ConfigError(
            f"configuration file {path}: {error.strerror}; name a readable TOML file",
            file=str(path),
        ) from None
    except (tomllib.TOMLDecodeError, EncodingError) as error:
        raise ConfigError(f"configuration file {path}: {error}", file=str(path)) from None
    except RecursionError:
        raise ConfigError(
            f"configuration file {path}: its values are nested too deeply; expected tables of "
            "plain values",
            file=str(path),
        ) from None


def _from_environment(variables: Mapping[str, str], note: Note) -> Iterable[_Value]:
    for name, place in SHORT_NAMES.items():
        if name in variables:
            origin = f"environment variable {name}"
            yield _Value(place, variables[name], origin, Path.cwd(), text=True)
    for section, keys in key_types().items():
        start = f"{PREFIX}{section.upper()}"
        for name, text in sorted(variables.items()):
            origin = f"environment variable {name}"
            if "*" in keys and name == start:
                for key, value in _pairs(text, origin, note):
                    yield _Value((section, key), value, origin, Path.cwd(), text=True)
            elif "*" not in keys and name.startswith(start + "_"):
                key = name.removeprefix(start + "_").lower()
                names = [f"{start}_{known.upper()}" for known in keys]
                if (unknown := _unknown_key(section, key, origin, names)) is None:
                    yield _Value((section, key), text, origin, Path.cwd(), text=True)
                else:
                    note(unknown)


def _pairs(text: str, origin: str, note: Note) -> Iterable[tuple[str, str]]:
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (word.strip() for word in part.partition("="))
        if not equals:
            expected_form = "expected NAME=VALUE[,NAME=VALUE...]"
            note(ConfigError(f"{origin}: {expected_form}, got {part!r}"))
        elif name in found:
            note(ConfigError(f"{origin}: {name!r} comes twice; give each name once"))
        else:
            found[name] = value
    yield from found.items()


def _from_flags(flags: Mapping[str, object], note: Note) -> Iterable[_Value]:
    names = {flag.path: flag.name for flag in setting_flags()}
    for path, value in flags.items():
        section, _, key = path.partition(".")
        if value is None:
            continue
        origin = f"flag {names[path]}" if path in names else f"flags[{path!r}]"
        if (unknown := _unknown_section(section, origin)) is not None:
            note(unknown)
        elif key:
            yield _Value((section, key), value, origin, Path.cwd(), text=True)
        elif not isinstance(value, Mapping):
            expected_form = f"expected names and values of [{section}]"
            note(ConfigError(f"{origin}: {expected_form}, got {value!r:.200}", origin=origin))
        else:
            for name, entry in value.items():
                yield _Value((section, name), entry, origin, Path.cwd(), text=True)


def _unknown_section(section: str, origin: str) -> ConfigError | None:
    """Return the error of a section that does not exist; None: it does."""
    known = key_types()
    if section in known:
        return None
    message = f"{origin}: unknown section [{section}]{_nearest(section, known)}"
    return ConfigError(message, key=section, origin=origin)


def _unknown_key(
    section: str, key: str, origin: str, names: Iterable[str] = ()
) -> ConfigError | None:
    """Return the error of a key that does not exist; None: it does.

    Args:
        section: its section, which exists.
        key: the key.
        origin: where it came from.
        names: what the keys of the section are called there; empty: as they are.
    """
    known = key_types()[section]
    if "*" in known or key in known:
        return None
    near = list(names) or list(known)
    wrong = origin.rpartition(" ")[2] if names else key
    message = f"{origin}: unknown key {section}.{key}{_nearest(wrong, near)}"
    return ConfigError(message, key=f"{section}.{key}", origin=origin)


def _nearest(name: str, known: Iterable[str]) -> str:
    known = sorted(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"


def _near_value(raw: object, kind: Any) -> str:
    """Return a question with the nearest of the values that a key lists, if one is near."""
    close = difflib.get_close_matches(str(raw), map(str, get_args(kind)), n=1)
    return f"; did you mean {close[0]!r}?" if close and get_origin(kind) is Literal else ""


def _merge(values: Iterable[_Value], note: Note) -> Loaded:
    types = key_types()
    tree: dict[str, dict[str, object]] = {section: {} for section in types}
    origins: dict[str, str] = {}
    for value in values:
        section, key = value.key
        kinds = types[section]
        try:
            if (unknown := _unknown_key(section, key, value.origin)) is not None:
                raise unknown
            if "*" in kinds and not 1 <= len(key) <= MAX_NAME:
                raise ConfigError(
                    f"{value.origin}: {section}: expected a name of 1 to {MAX_NAME} characters, "
                    f"got {shown(key)}",
                    key=section,
                    origin=value.origin,
                )
            tree[section][key] = _typed(value, kinds.get(key, kinds.get("*")))
        except ConfigError as error:
            note(error)
        else:
            origins[f"{section}.{key}"] = value.origin
    config = msgspec.convert(tree, analyzed(Config), dec_hook=decode_hook)
    for section, keys in types.items():
        for key in keys.keys() - {"*"}:
            origins.setdefault(f"{section}.{key}", "default")
    return Loaded(config, origins)


def _typed(value: _Value, kind: Any) -> object:
    """Convert one value; text of the environment and of flags is read as the type asks."""
    section, key = value.key
    raw = value.value
    if value.text and value.key == ("daemon", "python_path") and isinstance(raw, str):
        raw = [part for part in raw.split(os.pathsep) if part]
    if value.text and value.key == ("daemon", "op_modules") and isinstance(raw, str):
        raw = [part.strip() for part in raw.split(",") if part.strip()]
    try:
        typed = msgspec.convert(raw, analyzed(kind), strict=not value.text, dec_hook=decode_hook)
    except (msgspec.ValidationError, ValueError):
        got = f"{shown(raw)}{_near_value(raw, kind)}"
        raise ConfigError(
            f"{value.origin}: {section}.{key}: expected {expected(kind)}, got {got}",
            key=f"{section}.{key}",
            origin=value.origin,
        ) from None
    return _absolute(value, typed)


def _absolute(value: _Value, typed: object) -> object:
    """Make paths absolute, so that no later change of the working folder matters."""
    if value.key[0] == "datasets":
        name = str(typed)
        return name if is_live(name) else _from_folder(value, name)
    if value.key in _PATHS and typed:
        return _from_folder(value, str(typed))
    if value.key == ("daemon", "python_path"):
        assert isinstance(typed, tuple)
        return tuple(_from_folder(value, path) for path in typed)
    return typed


def _from_folder(value: _Value, path: str) -> str:
    try:
        return os.path.normpath(value.folder / Path(path).expanduser())
    except RuntimeError:
        name, key = path.partition("/")[0], ".".join(value.key)
        raise ConfigError(
            f"{value.origin}: {key}: the home folder {name} of {path!r} is not known on this host; "
            "write its path",
            key=key,
            origin=value.origin,
        ) from None


def show(loaded: Loaded) -> str:
    """Return one line a value, `section.key = value   # origin`, in the order of the sections."""
    values = sourced_values(loaded).items()
    return "\n".join(f"{key} = {_toml(one['value'])}  # {one['source']}" for key, one in values)


def sourced_values(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Return `section.key` -> its `value` and its `source`, in the order of the sections."""
    found = {}
    for section, body in msgspec.structs.asdict(loaded.config).items():
        values = body if isinstance(body, dict) else msgspec.structs.asdict(body)
        for key, value in values.items():
            path = f"{section}.{key}"
            found[path] = {"value": value, "source": loaded.origins[path]}
    return found


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if value is None:
        return '""'
    if isinstance(value, tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    if isinstance(value, (int, float)):
        return repr(value if isinstance(value, float) else int(value))
    return msgspec.json.encode(value).decode()
