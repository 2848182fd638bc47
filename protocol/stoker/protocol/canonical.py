"""Canonical form v1: every value has exactly one byte string, so hashes of records stay stable.

The form is JSON, ASCII only, keys sorted by code point, no white space, integers in decimal. A
float is written as `{"$f64": "<16 hex digits>"}`, its IEEE 754 binary64 bits, most significant
first; NaN and infinities are rejected. Keys are text, and a key that begins with `$` is rejected,
because such keys are reserved. Specified, with vectors, in docs/contracts/stream-spec.md.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping

Canonical = (
    None
    | bool
    | int
    | float
    | str
    | list["Canonical"]
    | tuple["Canonical", ...]
    | Mapping[str, "Canonical"]
)


def canonical_bytes(value: Canonical) -> bytes:
    """Return the canonical form of a value.

    Raises:
        TypeError: a part of the value has a type that the form does not support.
        ValueError: a float is not finite, or a key begins with `$`.
    """
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True
    ).encode("ascii")


def canonical_value(data: bytes) -> Canonical:
    """Parse a canonical form; `canonical_bytes` of the result is `data` again.

    Raises:
        ValueError: the bytes are not in canonical form: not JSON, nested too deeply, or not written
            in the one way that the form allows.
    """
    try:
        value: Canonical = json.loads(data, object_hook=_with_floats, parse_constant=_no_constant)
    except (RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"expected canonical JSON: {error}") from None
    if canonical_bytes(value) != data:
        raise ValueError("expected canonical JSON: the same value has another canonical form")
    return value


def digest128(data: bytes) -> str:
    """Return BLAKE2b-128 of the bytes, as 32 lower-case hex digits."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def canonical_digest(value: Canonical) -> str:
    """Return the BLAKE2b-128 of the canonical form, as 32 lower-case hex digits."""
    return digest128(canonical_bytes(value))


def _plain(value: Canonical) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"canonical JSON: expected a finite float, got {value!r}")
        return {"$f64": struct.pack(">d", value).hex()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {_key(key): _plain(item) for key, item in value.items()}
    raise TypeError(
        "canonical JSON: expected null, bool, int, float, str, list or dict, "
        f"got {type(value).__name__}"
    )


def _with_floats(fields: dict[str, Canonical]) -> Canonical:
    bits = fields.get("$f64")
    if len(fields) == 1 and isinstance(bits, str) and len(bits) == 16:
        return float(struct.unpack(">d", bytes.fromhex(bits))[0])
    return fields


def _no_constant(name: str) -> Canonical:
    raise ValueError(f"expected canonical JSON: {name} is not allowed")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"canonical JSON: expected text keys, got {key!r}")
    if key.startswith("$"):
        raise ValueError(f"canonical JSON: keys that begin with '$' are reserved, got {key!r}")
    return key
