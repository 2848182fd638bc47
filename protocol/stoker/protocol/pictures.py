"""Pictures of arrays, for notebooks: PNG and a little HTML, without an imaging library.

Text is escaped, and pictures are within the HTML itself, so nothing is loaded from elsewhere. Sides
are pixels.
"""

import base64
import html
import struct
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

LARGEST: Final = 192
"""The longer side of a picture; larger ones lose rows and columns."""
LEAST: Final = 8
"""An array with a shorter side is no picture."""
_FIGURE: Final = "display:inline-block;margin:0 8px 8px 0;vertical-align:top;max-width:200px"
_CAPTION: Final = "font-size:85%;overflow-wrap:anywhere"


def as_picture(array: Any) -> np.ndarray | None:
    """Return an array as a picture, (h, w) or (h, w, 3) uint8; None if it is none.

    Args:
        array: of any type. A picture is (h, w), (h, w, c) or (c, h, w) with 1, 3 or 4 channels, and
            sides of at least `LEAST`. Values other than uint8 are scaled, so that the least one is
            black and the greatest white. The fourth channel is left out.
    """
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "buif":
        return None
    if array.ndim == 3 and array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim not in (2, 3) or min(array.shape[:2]) < LEAST:
        return None
    if array.ndim == 3 and array.shape[2] not in (1, 3, 4):
        return None
    step = -(-max(array.shape[:2]) // LARGEST)
    small = array[::step, ::step]
    if small.ndim == 3:
        small = small[:, :, 0] if small.shape[2] == 1 else small[:, :, :3]
    return small if small.dtype == np.uint8 else _scaled(small)


def png(picture: np.ndarray) -> bytes:
    """Return a picture, (h, w) or (h, w, 3) uint8, as PNG."""
    height, width = picture.shape[:2]
    rows = np.zeros((height, 1 + picture.size // height), np.uint8)  # each begins with its filter
    rows[:, 1:] = picture.reshape(height, -1)
    color = 2 if picture.ndim == 3 else 0
    head = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts
    )


def figure(picture: np.ndarray, caption: str) -> str:
    """Return a picture with a caption as HTML."""
    data = base64.b64encode(png(picture)).decode()
    text = html.escape(caption)
    return (
        f'<figure style="{_FIGURE}"><img alt="{text}" src="data:image/png;base64,{data}">'
        f'<figcaption style="{_CAPTION}">{text}</figcaption></figure>'
    )


def figures(captioned: Iterable[tuple[str, Any]]) -> str:
    """Return those arrays that are pictures, of pairs (caption, array), as HTML."""
    return "".join(
        figure(picture, caption)
        for caption, array in captioned
        if (picture := as_picture(array)) is not None
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table of texts as HTML."""
    lines = "".join(_line("td", row) for row in rows)
    return f"<table><thead>{_line('th', heads)}</thead><tbody>{lines}</tbody></table>"


def heading(text: str) -> str:
    """Return a heading as HTML."""
    return f"<p><strong>{html.escape(text)}</strong></p>"


def verbatim(text: str) -> str:
    """Return lines of text as HTML."""
    return f"<pre>{html.escape(text)}</pre>"


def folded(title: str, text: str) -> str:
    """Return lines of text as HTML that shows the title alone until it is opened."""
    return f"<details><summary>{html.escape(title)}</summary>{verbatim(text)}</details>"


def _line(tag: str, texts: Sequence[object]) -> str:
    cells = "".join(f"<{tag}>{html.escape(str(text))}</{tag}>" for text in texts)
    return f"<tr>{cells}</tr>"


def _scaled(values: np.ndarray) -> np.ndarray:
    """Return values as uint8, from the least finite one to the greatest; others are black."""
    wide = values.astype(np.float64)
    finite = np.isfinite(wide)
    if not finite.any():
        return np.zeros(values.shape, np.uint8)
    low, high = wide[finite].min(), wide[finite].max()
    scaled = (wide - low) * (255.0 / max(high - low, 1e-300))
    result: np.ndarray = np.where(finite, scaled, 0.0).round().clip(0, 255).astype(np.uint8)
    return result
