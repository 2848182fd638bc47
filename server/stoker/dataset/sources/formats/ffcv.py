"""FFCV's .beton files as a source: one file, whose fields keep their names.

JPEGs are stored unchanged. Raw pixels stay raw if all images are raw; if a file mixes both, they
become PNG, without loss. JSON loses its terminating zero byte. An integer named `label` is the
label, any other a scalar. `--field NAME=KIND` overrides the kind of a number (`sources.declare`),
`NAME=ignore` leaves any field out.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from stoker.dataset.format import schema
from stoker.dataset.format.cells import Value
from stoker.dataset.format.fields import Field
from stoker.dataset.format.source_item import Container, ContainerRow, Item
from stoker.dataset.limits import CodecError
from stoker.dataset.sources.common.field_notation import IGNORE, declare, field_name
from stoker.dataset.sources.common.lazy_items import LazyItems
from stoker.dataset.sources.common.readers import BadItemError, check_path, open_unchanged
from stoker.dataset.sources.common.recipe import Recipe
from stoker.dataset.sources.common.scan import Request, SourceScan
from stoker.dataset.sources.common.walk import look_at
from stoker.dataset.sources.formats.beton import JPEG, RAW, Beton, BetonField
from stoker.protocol.errors import UsageError

SUFFIX = ".beton"
_NUMBERS = {"int": "int64", "float": "float64"}


def is_beton(source: Path) -> bool:
    """Return whether this looks like a .beton file."""
    return source.name.endswith(SUFFIX) and source.is_file()


def scan_beton(source: Path, request: Request) -> SourceScan:
    """Scan a .beton file.

    Args:
        source: the file.
        request: its fields are name -> KIND.

    Raises:
        UsageError: it is not such a file, or has no samples.
    """
    try:
        beton = Beton(source)
    except CodecError as error:
        raise UsageError(f"{source}: {error}") from None
    except OSError as error:
        raise UsageError(f"cannot read {source}: {error.strerror}; check the path") from None
    try:
        fields = _fields(source, beton, request.fields)
        items = BetonItems(source.name, beton.sizes())
    finally:
        beton.close()
    if not items:
        raise UsageError(f"{source} has no samples; write it again")
    file = look_at(source, source.name)
    return SourceScan("ffcv", source.parent, fields, items, [Container(file)], "beton")


class BetonItems(LazyItems):
    """The samples of a file."""

    def __init__(self, name: str, sizes: np.ndarray) -> None:
        """Take the file's name and the bytes of each sample."""
        super().__init__([len(sizes)])
        self._name, self._sizes = name, sizes

    def make(self, container: int, number: int) -> Item:
        """Return an item."""
        record = ContainerRow(container, number)
        return Item(f"{self._name}/{number}", int(self._sizes[number]), (record,))


class BetonReader:
    """Reads items that are a `ContainerRow` each; see `readers.Reader`."""

    def __init__(self, recipe: Recipe) -> None:
        """Prepare for the one container; it is opened when the first item is read."""
        self._root, self._file = Path(recipe.source), recipe.containers[0].file
        self._fields = recipe.schema.fields
        self._beton: Beton | None = None
        self._places: dict[str, int] = {}

    def read(self, item: Item) -> dict[str, Value]:
        """Return a value for each field.

        Raises:
            BadItemError: the sample cannot be read.
        """
        (place,) = item.places
        assert isinstance(place, ContainerRow)
        values: dict[str, Value] = {}
        for field in self._fields:
            try:
                values[field.name] = self._value(field, place.number)
            except CodecError as error:
                raise BadItemError(item.name, f"field {field.name!r}: {error}") from None
        try:
            check_path(self._root, self._file)
        except CodecError as error:
            raise BadItemError(item.name, str(error)) from None
        return values

    def close(self) -> None:
        """Close the file."""
        if self._beton is not None:
            self._beton.close()
            self._beton = None

    def _value(self, field: Field, number: int) -> Value:
        beton = self._open()
        place = self._places[field.name]
        described, part = beton.fields[place], beton.metadata[number][place]
        match described.type:
            case "image":
                return _picture(part, beton.data(int(part["place"])))
            case "bytes" | "json":
                data = beton.data(int(part["place"])) if part["size"] else b""
                return data.removesuffix(b"\0") if described.type == "json" else data
            case "array":
                return _array(described, beton.data(int(part)))
        value: np.generic = part
        return value

    def _open(self) -> Beton:
        if self._beton is None:
            with open(open_unchanged(self._root, self._file), "rb") as file:
                self._beton = Beton(f"/proc/self/fd/{file.fileno()}")
            self._places = {
                field_name(described.name): place
                for place, described in enumerate(self._beton.fields)
            }
        return self._beton


def _fields(source: Path, beton: Beton, kinds: Mapping[str, str]) -> tuple[Field, ...]:
    names = [described.name for described in beton.fields]
    for name in kinds.keys() - set(names):
        raise UsageError(
            f"--field {name}={kinds[name]}: {source} has no such field, only {', '.join(names)}"
        )
    fields: dict[str, Field] = {}
    for place, described in enumerate(beton.fields):
        kind = kinds.get(described.name, "")
        if kind == IGNORE:
            continue
        field = _field(described, kind, beton.metadata[f"f{place}"])
        if fields.setdefault(field.name, field) is not field:
            raise UsageError(
                f"{source}: two of its fields give {field.name!r}; leave one out with "
                f"--field '{described.name}={IGNORE}'"
            )
    if not fields:
        raise UsageError(f"{source}: every field is left out; keep at least one")
    return tuple(fields.values())


def _field(described: BetonField, kind: str, metadata: np.ndarray) -> Field:
    name = field_name(described.name)
    if described.type in _NUMBERS:
        usual = "label" if (name, described.type) == ("label", "int") else _NUMBERS[described.type]
        return declare(name, kind or usual, f"field {described.name!r}")
    if kind:
        raise UsageError(
            f"--field {described.name}={kind}: a field of type {described.type} can only be left "
            f"out ({IGNORE})"
        )
    if described.type == "image":
        raw = bool((metadata["mode"] == RAW).all())
        return schema.image(name, "raw" if raw else "encoded")
    if described.type == "array":
        dtype, shape = np.dtype(described.dtype).name, described.shape
        return schema.array(name, dtype, shape) if shape else schema.scalar(name, dtype)
    return schema.blob(name)


def _picture(part: np.void, data: bytes) -> Value:
    if part["mode"] == JPEG:
        return data
    height, width = int(part["height"]), int(part["width"])
    if part["mode"] != RAW or len(data) != height * width * 3:
        raise CodecError(
            f"expected a JPEG or the pixels of an image of {height}x{width}, got {len(data)} bytes "
            f"of mode {part['mode']}"
        )
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def _array(described: BetonField, data: bytes) -> np.ndarray:
    dtype = np.dtype(described.dtype)
    if len(data) != dtype.itemsize * int(np.prod(described.shape, dtype=np.int64)):
        raise CodecError(f"expected an array of {dtype} {described.shape}, got {len(data)} bytes")
    return np.frombuffer(data, dtype).reshape(described.shape)
