"""The data.yaml of a YOLO dataset: at most 1 MiB, every plain value read as the text that it is.

YAML 1.1 reads the words no, yes, on, off and null, and numbers such as 010 or 1_000, as other
values; names of classes are text, so nothing is converted. A value may come again by an alias, but
no value that stands for a name or a path may be a collection, so an alias cannot multiply.
"""

import reprlib
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from stoker.protocol.errors import UsageError
from stoker.protocol.files.text import EncodingError, decode_text

MAX_BYTES = 2**20
MAX_CLASSES = 2**16
_NULLS = frozenset(["", "~", "null", "Null", "NULL"])
_SPLITS = ("train", "val", "valid", "test")
_SHOWN = 80


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a data.yaml; scalars are text.

    Raises:
        UsageError: it cannot be read, is no YAML in UTF-8, or is not a mapping.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise UsageError(
                f"{path} is larger than {MAX_BYTES} bytes, so it cannot be a data.yaml"
            )
        loader = yaml.BaseLoader(decode_text(data))  # makes text, lists and dicts alone
        node = loader.get_single_node()
        _refuse_repeated(path, node)
        found = None if node is None else loader.construct_document(node)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; check the path") from None
    except EncodingError as error:
        raise UsageError(f"{path}: {error}") from None
    except RecursionError:
        raise UsageError(f"{path}: its values are nested too deeply for a data.yaml") from None
    except (yaml.YAMLError, ValueError, TypeError) as error:
        raise UsageError(f"{path}: expected YAML: {error}") from None
    if not isinstance(found, dict):
        raise UsageError(
            f"{path}: expected names of splits and classes, got {type(found).__name__}"
        )
    return found


def _refuse_repeated(path: Path, node: yaml.Node | None) -> None:
    """Refuse a key that comes twice, of which YAML would take the last.

    Raises:
        UsageError: a key of the file, or of one of its values, comes twice.
    """
    if not isinstance(node, yaml.MappingNode):
        return
    inner = [value for _, value in node.value if isinstance(value, yaml.MappingNode)]
    for mapping in (node, *inner):
        lines: dict[str, int] = {}
        for key, _ in mapping.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.value in lines:
                    raise UsageError(
                        f"{path}, line {line}: {key.value[:_SHOWN]!r} is in line "
                        f"{lines[key.value]} already; remove one of them"
                    )
                lines[key.value] = line


def splits_of(data: dict[str, Any]) -> dict[str, list[str]]:
    """Return the folders and lists of each split.

    Raises:
        UsageError: a split is neither a path nor a list of paths.
    """
    found = {}
    for name in _SPLITS:
        given = data.get(name, "")
        if given == [] or (isinstance(given, str) and given in _NULLS):
            continue
        paths = given if isinstance(given, list) else [given]
        if not all(isinstance(path, str) for path in paths):
            raise UsageError(
                f"{name} in data.yaml: expected a path or a list of paths, got {quoted(given)}"
            )
        found[name] = paths
    return found


def names_of(data: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names of the classes; None without names.

    Raises:
        UsageError: they are not a list of text, nor a mapping of 0, 1, ... to text.
    """
    names = data.get("names", "")
    if isinstance(names, str) and names in _NULLS:
        return None
    if isinstance(names, dict):
        numbers = list(map(str, range(len(names))))
        lacking = next((number for number in numbers if number not in names), None)
        if lacking is not None:
            raise UsageError(
                f"names in data.yaml: expected classes 0, 1, ... without gaps, got none for "
                f"{lacking}: {quoted(names)}"
            )
        names = [names[number] for number in numbers]
    good = (
        isinstance(names, list) and names and all(isinstance(name, str) and name for name in names)
    )
    if not good or len(names) > MAX_CLASSES:
        raise UsageError(
            f"names in data.yaml: expected a list of up to {MAX_CLASSES} names of classes, or "
            f"number: name, got {quoted(names)}"
        )
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise UsageError(f"names in data.yaml: two classes are named {twice!r}; rename one")
    return tuple(names)


def points_of(data: dict[str, Any], source: Path) -> tuple[int, int] | None:
    """Return `kpt_shape`: (keypoints of an object, numbers of a keypoint).

    Raises:
        UsageError: it is something else.
    """
    shape = data.get("kpt_shape", "")
    if isinstance(shape, str) and shape in _NULLS:
        return None
    sizes = [int(n) if isinstance(n, str) and n.isdecimal() and len(n) < 5 else 0 for n in shape]
    if (
        not isinstance(shape, list)
        or len(sizes) != 2
        or not 1 <= sizes[0] <= 2**10
        or (sizes[1] not in (2, 3))
    ):
        raise UsageError(f"{source}: kpt_shape: expected [keypoints, 2 or 3], got {quoted(shape)}")
    return sizes[0], sizes[1]


def point_names_of(data: dict[str, Any], source: Path, count: int) -> tuple[str, ...] | None:
    """Return `kpt_names`, which is a list, or a list for each class; None if they differ.

    Raises:
        UsageError: a list has other than `count` different names.
    """
    given = data.get("kpt_names", "")
    if isinstance(given, str) and given in _NULLS:
        return None
    found = set()
    for names in given.values() if isinstance(given, dict) else [given]:
        texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
        if not texts or len(names) != count or len({*names}) != count:
            raise UsageError(
                f"{source}: kpt_names: expected {count} different names, as many as in kpt_shape, "
                f"or such a list for each class, got {quoted(names)}"
            )
        found.add(tuple(names))
    return found.pop() if len(found) == 1 else None


def quoted(value: Any) -> str:
    """Show a value in a bounded time and length, also one that holds itself many times."""
    return reprlib.repr(value)[:_SHOWN]
