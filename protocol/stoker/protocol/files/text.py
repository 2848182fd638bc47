"""Text that people write: UTF-8, with or without the byte order mark that Windows editors write.

Every list, table, label file and configuration of a user is read through here, so all of them take
the same files. A mark of another encoding, or bytes that are not UTF-8, are an error that says so.
"""

import codecs
import os
from typing import Final

_MARKS: Final = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
"""The mark of UTF-32 begins with that of UTF-16, so it comes first."""


MAX_TEXT_BYTES: Final = 2**28
"""Maximum size of a file that is read as a whole."""


class EncodingError(ValueError):
    """Bytes are not UTF-8, or too many; the message says what they are, and the remedy."""


def without_mark(data: bytes) -> bytes:
    """Return UTF-8 without its byte order mark.

    Raises:
        EncodingError: it begins with the mark of another encoding.
    """
    for mark, name in _MARKS:
        if data.startswith(mark):
            raise EncodingError(
                f"expected text in UTF-8, got {name} (its byte order mark is {mark.hex(' ')}); "
                "save it as UTF-8"
            )
    return data.removeprefix(codecs.BOM_UTF8)


def decode_text(data: bytes) -> str:
    """Return the text of a file.

    Raises:
        EncodingError: it is not UTF-8; the message names the byte and its line.
    """
    body = without_mark(data)
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        raise EncodingError(
            f"expected text in UTF-8, got the byte 0x{body[error.start]:02x} in line {line}; save "
            "it as UTF-8"
        ) from None


def read_text(path: str | os.PathLike[str]) -> str:
    """Read a file as text.

    Raises:
        OSError: it cannot be read.
        EncodingError: it is not UTF-8, or larger than `MAX_TEXT_BYTES`.
    """
    with open(path, "rb") as file:
        told = os.fstat(file.fileno()).st_size
        data = file.read(MAX_TEXT_BYTES + 1) if told <= MAX_TEXT_BYTES else b""
    if max(told, len(data)) > MAX_TEXT_BYTES:
        raise EncodingError(
            f"expected text of at most {MAX_TEXT_BYTES} bytes, got a larger file; check that it is "
            "the right one"
        )
    return decode_text(data)
