"""Rewritten JPEGs show the same pixels, whole and in windows; damage is refused.

The reference is libjpeg-turbo, through simplejpeg: the original file decoded, then cropped.
"""

import dataclasses
import heapq
import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from stoker.dataset.images.box_decoding import BoxScratch, decode_boxed
from stoker.dataset.images.jpeg import Splicer, UnindexableError, rewrite
from stoker.dataset.images.jpeg.entropy_bits import bit_length, first_bit, places_of
from stoker.dataset.images.jpeg.grid_rewrite import _block, interval_of
from stoker.dataset.images.jpeg.huffman import best_table, codes_of
from stoker.dataset.images.jpeg.segments import read_segments
from stoker.dataset.limits import CodecError
from stoker.jit import compiled, kernel

SIZES = [(150, 200), (101, 97), (64, 64), (7, 9), (1, 1), (90, 33), (50, 185)]


def pixels_of(data):
    """Decode strictly, in the file's own number of channels."""
    space = simplejpeg.decode_jpeg_header(data)[2]
    return simplejpeg.decode_jpeg(data, colorspace="GRAY" if space == "Gray" else "RGB")


def windows_differ(data, crops, seed):
    """Count random crops that differ between the original and windows of the rewritten file."""
    whole, made = pixels_of(data), rewrite(data)
    file, grid, splicer = memoryview(made.data), memoryview(made.grid.to_bytes()), Splicer()
    height, width = whole.shape[:2]
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(crops):
        h, w = int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))
        top, left = int(rng.integers(0, height - h + 1)), int(rng.integers(0, width - w + 1))
        window = splicer.cut(file, grid, (height, width), (top, left, h, w), height * width)
        got = pixels_of(window.file.tobytes())
        assert got.shape[:2] == (window.height, window.width)
        y, x = top - window.top, left - window.left
        box = got[y : y + h, x : x + w]
        wrong += not np.array_equal(box, whole[top : top + h, left : left + w])
    return wrong


@pytest.mark.parametrize("subsampling", [0, 1, 2], ids=["444", "422", "420"])
@pytest.mark.parametrize("progressive", [False, True], ids=["baseline", "progressive"])
@pytest.mark.parametrize("gray", [False, True], ids=["color", "gray"])
def test_every_pixel_is_that_of_the_original(photographs, to_jpeg, subsampling, progressive, gray):
    photograph = photographs["flower"]
    for number, (height, width) in enumerate(SIZES):
        pixels = photograph[:height, :width]
        pixels = pixels[..., 1] if gray else pixels
        data = to_jpeg(
            pixels, quality=(75, 97)[number % 2], subsampling=subsampling, progressive=progressive
        )
        assert np.array_equal(pixels_of(rewrite(data).data), pixels_of(data))
        assert windows_differ(data, 30, number) == 0


@pytest.mark.parametrize("subsampling", ["440", "411", "444"])
def test_rarer_subsampling(photographs, subsampling):
    pixels = np.ascontiguousarray(photographs["coffee"])
    data = simplejpeg.encode_jpeg(pixels, 88, colorsubsampling=subsampling)
    assert windows_differ(data, 150, 3) == 0


def test_restart_markers_tables_and_segments_of_the_source_do_not_matter(photographs, to_jpeg):
    pixels = photographs["china"]
    profile, comment = b"not a profile" * 400, b"a comment"
    plain = to_jpeg(pixels)
    for options in (
        {"restart_marker_blocks": 3},
        {"restart_marker_rows": 1},
        {"optimize": True},
        {"icc_profile": profile},
        {"comment": comment},
        {"orientation": 6},
        {"qtables": [[1] * 64, [2] * 64]},
    ):
        data = to_jpeg(pixels, **options)
        made = rewrite(data)
        assert np.array_equal(pixels_of(made.data), pixels_of(data))
        assert windows_differ(data, 10, 5) == 0
        before, after = (Image.open(io.BytesIO(d)) for d in (data, made.data))
        assert before.info.get("icc_profile") == after.info.get("icc_profile")
        assert before.info.get("comment") == after.info.get("comment")
        assert before.getexif() == after.getexif()
    assert len(rewrite(plain).data) < len(plain) * 1.02, "best tables pay for the markers"


def test_a_window_leaves_out_what_decoding_does_not_need(photographs, to_jpeg):
    data = to_jpeg(photographs["china"], icc_profile=b"x" * 50000)
    made = rewrite(data)
    size, box = photographs["china"].shape[:2], (40, 60, 20, 20)
    file, grid = memoryview(made.data), memoryview(made.grid.to_bytes())
    window = Splicer().cut(file, grid, size, box, size[0] * size[1])
    assert window.file.size < 5000
    pixels = window.height * window.width
    assert Splicer().cut(file, grid, size, box, pixels) is not None
    assert Splicer().cut(file, grid, size, box, pixels - 1) is None


@pytest.mark.parametrize(
    ("columns", "mcu_width", "interval"),
    [
        (32, 16, 2), (31, 16, 1), (33, 16, 3), (25, 16, 1), (1, 16, 1), (35, 16, 1),
        (63, 8, 3), (47, 8, 1), (50, 8, 5), (64, 8, 4), (49, 8, 7), (5, 8, 5), (15, 32, 1),
    ],
)  # fmt: skip
def test_the_interval_is_the_divisor_nearest_to_32_pixels(columns, mcu_width, interval):
    assert interval_of(columns, mcu_width) == interval


def test_a_window_is_narrow_where_a_prime_counts_the_columns(photographs, to_jpeg):
    pixels = photographs["china"][:, : 31 * 16]
    made = rewrite(to_jpeg(pixels))
    file, grid = memoryview(made.data), memoryview(made.grid.to_bytes())
    window = Splicer().cut(file, grid, pixels.shape[:2], (40, 100, 20, 20), pixels.size)
    assert window.width <= 48


def test_codes_are_as_short_as_an_independent_huffman_says():
    rng = np.random.default_rng(1)
    for _ in range(20):
        counted = (rng.pareto(1.0, 256) * rng.integers(0, 2, 256) * 50).astype(np.int64)
        counted[7] = 5
        _, lengths = codes_of(best_table(counted))
        assert (lengths[counted > 0] > 0).all()
        assert lengths.max() <= 16
        assert sum(2.0**-length for length in lengths[lengths > 0]) < 1
        total = int((lengths * counted).sum())
        assert least_bits([*counted[counted > 0], 1]) <= total + lengths.max()
        if lengths.max() < 16:
            longest = int(lengths.max())
            assert total <= least_bits([*counted[counted > 0], 1]) <= total + longest


def least_bits(counts):
    """Bits of a Huffman code without a limit of length: the sum of all merges."""
    heap, total = [int(count) for count in counts], 0
    heapq.heapify(heap)
    while len(heap) > 1:
        merged = heapq.heappop(heap) + heapq.heappop(heap)
        total += merged
        heapq.heappush(heap, merged)
    return total


def test_compiled_functions_on_bits_are_those_on_numbers():
    rng = np.random.default_rng(4)
    values = rng.integers(-3, 4, 640).astype(np.int16) * rng.integers(0, 2, 640).astype(np.int16)
    values[63] = 1
    bits = [places_of(values, at) for at in range(0, 640, 64)]
    bits += [np.uint64(n) for n in (1, 2**63, 2**63 - 1)]
    assert bits[0] >= 2**63
    assert [compiled(_places)(values, at) for at in range(0, 640, 64)] == bits[:10]
    assert [compiled(_first)(n) for n in bits] == [first_bit(n) for n in bits]
    lengths = [0, 1, 2, 3, 255, 256, 2**31, 2**62]
    assert [compiled(_length)(np.int64(n)) for n in lengths] == [bit_length(n) for n in lengths]


@kernel
def _places(values, at):
    return places_of(values, at)


@kernel
def _first(bits):
    return first_bit(bits)


@kernel
def _length(value):
    return bit_length(value)


def test_coding_is_the_same_in_plain_python():
    rng = np.random.default_rng(8)
    values = rng.integers(-900, 900, 128).astype(np.int16) * rng.integers(0, 2, 128, np.int16)
    values[[63, 127]] = 7
    made = []
    for block in (_block, compiled(_block)):
        tokens, counts = np.zeros(200, np.uint32), np.zeros(1024, np.int64)
        end = block(values, 64, np.int64(5), 512, tokens, counts, np.int64(0))
        made.append((end, tokens.tolist(), counts.tolist()))
    assert made[0] == made[1]


def test_other_sorts_are_refused_with_the_reason(photographs):
    pixels = photographs["china"]
    out = io.BytesIO()
    Image.fromarray(pixels).convert("CMYK").save(out, "JPEG")
    with pytest.raises(UnindexableError, match="4 components"):
        rewrite(out.getvalue())
    with pytest.raises(UnindexableError, match="bytes after its end"):
        rewrite(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels)) + b"\0")
    baseline = bytearray(simplejpeg.encode_jpeg(np.ascontiguousarray(pixels)))
    tables, frame = baseline.index(b"\xff\xdb"), baseline.index(b"\xff\xc0")
    with pytest.raises(UnindexableError, match="a quantization table is missing"):
        rewrite(bytes(baseline[:tables] + baseline[frame:]))
    for marker, why in ((0xC9, "frame type 0xc9"), (0xC3, "frame type 0xc3")):
        baseline[frame + 1] = marker
        with pytest.raises(UnindexableError, match=why):
            rewrite(bytes(baseline))
    baseline[frame + 1], baseline[frame + 4] = 0xC1, 12
    with pytest.raises(UnindexableError, match="12 bits"):
        rewrite(bytes(baseline))


@pytest.mark.parametrize("progressive", [False, True])
def test_damage_never_changes_a_pixel_in_silence(photographs, to_jpeg, progressive):
    """A rewritten file shows what libjpeg-turbo shows of the damaged one; others are refused."""
    data = to_jpeg(photographs["rocket"][:60, :70], progressive=progressive)
    rng, refused, kept = np.random.default_rng(2), 0, 0
    for _ in range(250):
        broken = bytearray(data)
        for _ in range(int(rng.integers(1, 4))):
            broken[int(rng.integers(2, len(data)))] ^= 1 << int(rng.integers(0, 8))
        if rng.integers(0, 4) == 0:
            del broken[int(rng.integers(2, len(broken))) :]
        try:
            made = rewrite(bytes(broken))
        except CodecError:
            refused += 1
            continue
        try:
            expected = pixels_of(bytes(broken))
        except ValueError:
            continue
        kept += 1
        assert np.array_equal(pixels_of(made.data), expected)
    assert refused > 50
    assert kept > 5


def boxed(data, grid, size):
    """Decode a box at the end of a picture that is said to be of a size."""
    out = np.zeros((*size, 3), np.uint8)
    box = (size[0] - 9, size[1] - 7, 8, 6)
    decode_boxed(memoryview(data), memoryview(grid), size, 1, box, out, BoxScratch())


def check(data, grid, size):
    Splicer().check(memoryview(data), memoryview(grid), size)


def test_a_grid_that_does_not_fit_its_file_is_refused(photographs, to_jpeg):
    made, size = rewrite(to_jpeg(photographs["china"])), photographs["china"].shape[:2]
    good = made.grid.to_bytes()
    check(made.data, good, size)
    wrapping, last = made.grid.offsets.copy(), len(made.grid.offsets) // 2
    wrapping[last] = 2**32 - 1  # and two more would be 1
    for part in (
        {"offsets": wrapping},
        {"mcu_width": 1, "columns": 1, "rows": len(made.grid.offsets) - 1},
        {"mcu_height": 0},
    ):
        lie = dataclasses.replace(made.grid, **part).to_bytes()
        for refuse in (check, boxed):
            with pytest.raises(CodecError, match="its grid is damaged"):
                refuse(made.data, lie, size)
    other = size[0] * 4, size[1] * 4
    with pytest.raises(CodecError, match=f"expected the grid of an image of {other[0]}x"):
        boxed(made.data, good, other)
    for cut in (0, 3, len(good) - 4, len(good) - 1):
        with pytest.raises(CodecError, match="grid"):
            check(made.data, good[:cut], size)
    with pytest.raises(CodecError, match="grid"):
        check(made.data[:-1], good, size)


@pytest.mark.parametrize("subsampling", [0, 2], ids=["444", "420"])
def test_a_damaged_grid_never_changes_a_pixel_in_silence(photographs, to_jpeg, subsampling):
    """Whatever a box of a damaged grid shows is what the file shows; a check finds all damage.

    Of version 1: that of version 2 has checksums, see `test_jpeg_checksums`.
    """
    data = to_jpeg(photographs["china"][:120, :150], subsampling=subsampling)
    whole, made = pixels_of(data), rewrite(data)
    good = dataclasses.replace(made.grid, checksums=None).to_bytes()
    size, scratch = whole.shape[:2], BoxScratch()
    rng, refused, shown = np.random.default_rng(4), 0, 0
    for turn in range(3000):
        broken = bytearray(good)
        if turn % 2:
            broken[int(rng.integers(0, len(good)))] ^= 1 << int(rng.integers(0, 8))
        else:  # an interval that begins somewhat earlier or later
            place = 24 + 4 * int(rng.integers(0, len(made.grid.offsets)))
            moved = int.from_bytes(broken[place : place + 4], "little") + int(rng.integers(-9, 9))
            broken[place : place + 4] = moved.to_bytes(4, "little")
        h, w = (int(side) for side in rng.integers(1, 70, 2))
        top, left = int(rng.integers(0, size[0] - h + 1)), int(rng.integers(0, size[1] - w + 1))
        out = np.zeros((*size, 3), np.uint8)
        views, box = (memoryview(made.data), memoryview(bytes(broken))), (top, left, h, w)
        try:
            assert decode_boxed(*views, size, 1, box, out, scratch)
        except CodecError:
            refused += 1
            continue
        shown += 1
        inner = (slice(top, top + h), slice(left, left + w))
        assert np.array_equal(out[inner], whole[inner]), (turn, box)
        if broken[24:] != good[24:]:
            with pytest.raises(CodecError, match="its grid is damaged"):
                check(made.data, bytes(broken), size)
    assert min(refused, shown) > 500


def test_segments_are_read_as_they_stand(photographs, to_jpeg):
    found = read_segments(to_jpeg(photographs["china"], subsampling=2, progressive=True))
    assert (found.height, found.width, found.progressive) == (*photographs["china"].shape[:2], True)
    assert [(part.h, part.v) for part in found.components] == [(2, 2), (1, 1), (1, 1)]
    assert len(found.scans) > 5
