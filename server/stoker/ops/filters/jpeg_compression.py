"""Compress and decompress as JPEG, with probability p: the effect on pixels, without the file.

Draws: 0 applied if uniform < p; 1 the quality, an integer of its range. The pixels are those of
libjpeg for that quality with its defaults (4:2:0, accurate integer transform, smooth upsampling of
chroma), bit for bit: everything except entropy coding, which is lossless, happens here. An image of
one channel is luma.

Planes: `kernels.jpeg_planes`; blocks: `kernels.jpeg_blocks`. Tables: ITU-T T.81, K.1 and K.2,
scaled as the Independent JPEG Group's library does.
"""

from typing import Annotated, Any, Final

import numpy as np

from stoker.jit import kernel
from stoker.ops.bases.pixelwise import APPLY, PixelOp, begin
from stoker.ops.contract.kernel_forms import Kernel
from stoker.ops.contract.op_functions import function
from stoker.ops.contract.parameters import Probability, WholeRange, WholeSpan
from stoker.ops.contract.registry import register
from stoker.ops.contract.rules import GRAY_OR_RGB
from stoker.ops.contract.states import State
from stoker.ops.kernels.jpeg_blocks import (
    SIZE,
    TABLE_BYTES,
    code_plane,
    fill_table,
    plain_code_plane,
)
from stoker.ops.kernels.jpeg_planes import (
    fill_chroma,
    fill_luma,
    half,
    plain_image,
    plain_planes,
    whole_blocks,
    write_colors,
    write_gray,
)
from stoker.ops.kernels.resample import padded
from stoker.rng.draws import bernoulli, integers

LUMA: Final = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
"""ITU-T T.81, table K.1."""
CHROMA: Final = (
    (17, 18, 24, 47, 99, 99, 99, 99),
    (18, 21, 26, 66, 99, 99, 99, 99),
    (24, 26, 56, 99, 99, 99, 99, 99),
    (47, 66, 99, 99, 99, 99, 99, 99),
    *((99,) * 8,) * 4,
)
"""ITU-T T.81, table K.2."""
WORK: Final = TABLE_BYTES + 4 * SIZE
"""Bytes of a table and two blocks."""


@kernel
def _draw(key: Any, params: Any, height: int, width: int, record: Any) -> None:
    record["apply"] = 1 if bernoulli(key, 0, params["p"]) else 0
    low, high = int(params["low"]), int(params["high"])
    record["quality"] = low + int(integers(key, 1, high - low + 1))


@kernel
def _code(plane: Any, stride: int, base: Any, quality: int, work: Any) -> None:
    """Code a flat plane in place; `work` is `(WORK,) uint8` of scratch."""
    inverses = work[: 4 * SIZE].view(np.float32)
    entries = work[4 * SIZE : TABLE_BYTES].view(np.int16)
    a = work[TABLE_BYTES : TABLE_BYTES + 2 * SIZE].view(np.int16)
    b = work[TABLE_BYTES + 2 * SIZE : WORK].view(np.int16)
    fill_table(base, quality, entries, inverses)
    code_plane(plane, stride, (entries, inverses), (a, b))


@kernel
def _run(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    if not record["apply"]:
        begin(src, dst)
        return
    height, width, channels = src.shape
    quality = int(record["quality"])
    work, at = scratch[:WORK], padded(WORK)
    stride = whole_blocks(width)
    gray = scratch[at : at + whole_blocks(height) * stride]
    at += padded(gray.size)
    fill_luma(src, gray, stride)
    _code(gray, stride, params["luma"], quality, work)
    if channels == 1:
        write_gray(gray, stride, dst)
        return
    wide = whole_blocks(half(width))
    size = whole_blocks(half(height)) * wide
    blue = scratch[at : at + size]
    at += padded(size)
    red = scratch[at : at + size]
    at += padded(size)
    fill_chroma(src, blue, red, wide)
    _code(blue, wide, params["chroma"], quality, work)
    _code(red, wide, params["chroma"], quality, work)
    count = 4 * half(width)
    sums = scratch[at : at + count].view(np.int32)
    line_b = scratch[at + count : at + 3 * count].view(np.int32)
    line_r = scratch[at + 3 * count : at + 5 * count].view(np.int32)
    write_colors((gray, blue, red), (stride, wide), dst, (sums, line_b, line_r))


def _plain(src: Any, dst: Any, params: Any, record: Any, scratch: Any) -> None:
    dst[...] = src
    if record["apply"]:
        height, width, _ = src.shape
        bases = (np.asarray(params["luma"]), *(np.asarray(params["chroma"]),) * 2)
        planes = plain_planes(src.astype(np.int64))
        quality = int(record["quality"])
        coded = [plain_code_plane(p, b, quality) for p, b in zip(planes, bases, strict=False)]
        dst[...] = plain_image(coded, height, width)


@register
class JpegCompression(PixelOp):
    """Compress and decompress as JPEG."""

    quality_range: Annotated[WholeRange, WholeSpan(1, 100), "1 is worst"] = (30, 90)
    p: Probability = 0.5

    image_channels = GRAY_OR_RGB
    of_levels = True
    clips_floats = True
    examples = ({"p": 0.9}, {"quality_range": (1, 100), "p": 0.5})
    picture = {"quality_range": (8, 8)}
    parameters = np.dtype(
        [
            ("low", "i4"),
            ("high", "i4"),
            ("luma", "u1", (SIZE,)),
            ("chroma", "u1", (SIZE,)),
            ("p", "f8"),
        ]
    )
    record = np.dtype([("quality", "i4"), APPLY])
    kernels = {"image": Kernel(_run, _plain)}
    draw = staticmethod(_draw)

    def params(self) -> np.ndarray:
        """Return the run-time parameters, with the tables of the standard."""
        low, high = self.quality_range
        return np.array((low, high, np.ravel(LUMA), np.ravel(CHROMA), self.p), self.parameters)

    def scratch(self, state: State) -> int:
        """Return the bytes of three planes, of a table and blocks, and of lines of chroma."""
        height, width, _ = state.bound
        chroma = padded(whole_blocks(half(height)) * whole_blocks(half(width)))
        gray = padded(whole_blocks(height) * whole_blocks(width))
        return padded(WORK) + gray + 2 * chroma + 20 * half(width)


jpeg_compression = function(JpegCompression)
