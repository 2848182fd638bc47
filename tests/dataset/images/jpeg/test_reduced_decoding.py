"""Stoker's own decoder at 1/2, 1/4 and 1/8 shows the pixels of libjpeg-turbo, and finds all damage.

The reference is the whole file, reduced by libjpeg-turbo through simplejpeg.
"""

import dataclasses
import os

import numpy as np
import pytest
import simplejpeg
from flat_jpeg import flat_jpeg
from jpeg_boxes import GuardedDecoder, damaged, encoded

from stoker import ops
from stoker.client import Loader
from stoker.dataset import schema
from stoker.dataset.images.box_decoding import BoxScratch
from stoker.dataset.images.jpeg import grid_rewrite, rewrite
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.images.jpeg.decoding.sizes import BAND
from stoker.dataset.images.jpeg.huffman import HuffmanTable
from stoker.dataset.images.orientation import oriented
from stoker.dataset.images.scaled_decoding import decode_scaled_box, reduced, touched
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.build import write_dataset
from stoker.pipeline import pipeline

pytestmark = pytest.mark.slow
MUTATIONS = int(os.environ.get("STOKER_JPEG_MUTATIONS", "3000"))
FILES = int(os.environ.get("STOKER_JPEG_FILES", "30"))
FROM = int(os.environ.get("STOKER_JPEG_FROM", "0"))
SAMPLINGS = ("444", "422", "420", "440", "411", "gray")
DIVISORS = (2, 4, 8)


def by_libjpeg(data, size, divisor):
    """Return the reduced image, or the whole one if its smaller forms have the same size."""
    height, width = reduced(size, divisor)
    found = simplejpeg.decode_jpeg(
        data, min_height=height, min_width=width, min_factor=divisor if max(size) > 8 else 1
    )
    assert found.shape[:2] == (height, width)
    return found


def decoded(decoder, made, size, box, divisor, most=None):
    """Decode a box into painted memory; None if the decoder does not cover the file."""
    out = np.full((*reduced(size, divisor), 3), 77, np.uint8)
    y, x, _, _ = touched(box, divisor)
    target = out.reshape(-1), 3 * (y * out.shape[1] + x), 3 * out.shape[1]
    views = memoryview(made.data), memoryview(made.grid.to_bytes())
    most = size[0] * size[1] if most is None else most
    return out if decoder.decode(*views, size, box, most, target, divisor) else None


def boxes_of(size, count, rng):
    yield (0, 0, *size)
    for number in range(count):
        most = size if number % 2 else [min(side, 20) for side in size]
        h, w = (int(rng.integers(1, side + 1)) for side in most)
        yield int(rng.integers(0, size[0] - h + 1)), int(rng.integers(0, size[1] - w + 1)), h, w


def differing(decoder, data, boxes, seed, divisors=DIVISORS):
    """Return (divisor, box) of what differs from libjpeg-turbo, or is written elsewhere."""
    size, made, wrong = simplejpeg.decode_jpeg(data).shape[:2], rewrite(data), []
    for divisor in divisors if max(size) > 8 else ():
        whole = by_libjpeg(data, size, divisor)
        for box in boxes_of(size, boxes, np.random.default_rng([seed, divisor])):
            y, x, rows, columns = touched(box, divisor)
            part, expected = (slice(y, y + rows), slice(x, x + columns)), np.full_like(whole, 77)
            expected[part] = whole[part]
            got = decoded(decoder, made, size, box, divisor)
            if got is None or not np.array_equal(got, expected):
                wrong.append((divisor, box))
    return wrong


@pytest.fixture(scope="module")
def decoder():
    return BoxDecoder()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_quality_and_size_has_the_pixels_of_libjpeg(photographs, decoder, sampling):
    names = list(photographs)
    for number, quality in enumerate((*range(1, 100, 9), 100)):
        pixels = photographs[names[number % len(names)]]
        size = [(150, 200), (101, 97), (64, 64), (9, 11), (90, 33), (50, 185), (200, 3)]
        height, width = size[number % len(size)]
        data = encoded(pixels[:height, :width], quality, sampling)
        assert differing(decoder, data, 8, number) == [], quality


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_narrow_and_low_images(photographs, decoder, sampling):
    for height in (1, 2, 5, 17):
        for width in (9, 15, 16, 17, 23, 33, 41):
            for turned in (False, True):
                pixels = photographs["china"][:height, :width]
                pixels = pixels.transpose(1, 0, 2) if turned else pixels
                data = encoded(pixels, 90, sampling)
                assert differing(decoder, data, 2, width) == [], (height, width, turned)


def test_random_files_have_the_pixels_of_libjpeg(photographs, decoder):
    """Four boxes of each fraction; `make jpeg` takes 10,000 files. A failure names its file."""
    names = list(photographs)
    for number in range(FROM, FROM + FILES):
        rng = np.random.default_rng([12, number])
        pixels = photographs[names[int(rng.integers(len(names)))]]
        height, width = (int(rng.integers(1, side + 1)) for side in pixels.shape[:2])
        sampling = SAMPLINGS[int(rng.integers(len(SAMPLINGS)))]
        data = encoded(pixels[-height:, -width:], int(rng.integers(1, 101)), sampling)
        assert differing(decoder, data, 3, number) == [], number


def test_every_edge_of_a_band_and_of_an_interval(photographs, decoder):
    data = encoded(photographs["coffee"][:140, :110], 90, "420")
    size, made = (140, 110), rewrite(data)
    for divisor in DIVISORS:
        whole = by_libjpeg(data, size, divisor)
        for top in range(0, 16 * BAND + 3, 3):
            for left, height, width in ((top % 37, 35, 40), (37 - top % 37, 2, 33), (top, 1, 1)):
                box = top, left, height, width
                y, x, rows, columns = touched(box, divisor)
                part = slice(y, y + rows), slice(x, x + columns)
                got = decoded(decoder, made, size, box, divisor)
                assert np.array_equal(got[part], whole[part]), (divisor, box)


def test_samplings_in_all_forms_of_their_factors(decoder):
    for factors in (
        [(2, 1), (1, 1), (1, 1)], [(2, 2), (2, 1), (2, 1)], [(2, 2), (1, 2), (1, 2)],
        [(1, 4), (1, 1), (1, 1)], [(4, 1), (1, 1), (1, 1)], [(3, 1), (3, 1), (3, 1)],
    ):  # fmt: skip
        assert differing(decoder, flat_jpeg(37, 45, factors), 10, 1) == [], factors


def test_wide_quantization_and_extreme_levels(decoder, to_jpeg):
    rng = np.random.default_rng(5)
    noise = (rng.integers(0, 2, (70, 90, 3)) * 255).astype(np.uint8)
    for tables in ([[1] * 64] * 2, [[255] * 64] * 2, [list(range(1, 65))] * 2):
        for subsampling in (0, 2):
            data = to_jpeg(noise, qtables=tables, subsampling=subsampling)
            assert differing(decoder, data, 5, 2) == []


def test_huffman_tables_of_other_shapes(photographs, decoder, monkeypatch):
    """Codes of 16 bits for all symbols, and tables that change from file to file."""

    def long_codes(counts):
        found = [bytes(int(symbol) for symbol in np.flatnonzero(row)) for row in counts]
        return [HuffmanTable(bytes([0] * 15 + [len(symbols)]), symbols) for symbols in found]

    for quality in (95, 30):
        data = encoded(photographs["rocket"], quality, "420")
        assert differing(decoder, data, 3, 1) == []
        with monkeypatch.context() as patch:
            patch.setattr(grid_rewrite, "chosen_tables", long_codes)
            assert differing(decoder, data, 3, 1) == []


def test_orientations(photographs, to_jpeg, monkeypatch):
    monkeypatch.setattr(
        "stoker.dataset.images.scaled_decoding.is_own_decoder_chosen", lambda *_: True
    )
    scratch, pixels = BoxScratch(), photographs["astronaut"][:144, :136]
    for turn in range(1, 9):
        data = to_jpeg(pixels, orientation=turn)
        made, divisor = rewrite(data), DIVISORS[turn % 3]
        views = memoryview(made.data), memoryview(made.grid.to_bytes())
        whole = oriented(by_libjpeg(data, (144, 136), divisor), turn)
        size = oriented(pixels, turn).shape[:2]
        for box in boxes_of(size, 8, np.random.default_rng(turn)):
            out = np.zeros(3 * size[0] * size[1], np.uint8)
            got = decode_scaled_box(*views, size, turn, divisor, box, out, scratch)
            y, x, rows, columns = touched(box, divisor)
            part = slice(y, y + rows), slice(x, x + columns)
            assert got.shape == whole.shape
            assert np.array_equal(got[part], whole[part]), (turn, box)


@pytest.mark.parametrize("divisor", DIVISORS)
@pytest.mark.parametrize("sampling", ["420", "444", "gray"])
def test_damaged_intervals_are_refused_and_nothing_is_written_elsewhere(
    photographs, sampling, divisor
):
    """What is shown of a damaged file is what libjpeg-turbo shows of it; without checksums."""
    data = encoded(photographs["china"][:70, :90], 80, sampling)
    size, made = (70, 90), rewrite(data)
    made = dataclasses.replace(made, grid=dataclasses.replace(made.grid, checksums=None))
    guarded, rng = GuardedDecoder(), np.random.default_rng([7, divisor, FROM])
    intervals = refused = shown = 0
    while intervals < MUTATIONS // 9:
        other, changed = damaged(made, rng)
        intervals += changed
        try:
            got = decoded(guarded, other, size, (0, 0, *size), divisor, 0)
        except CodecError:
            refused += 1
        else:
            shown += got is not None
            if got is not None:
                assert np.array_equal(got, by_libjpeg(other.data, size, divisor))
        assert guarded.faults() == []
    assert refused > MUTATIONS // 48
    assert shown > 0


def test_exactly_the_intervals_of_a_box_must_be_intact(photographs, monkeypatch):
    """The splicer's way, for libjpeg-turbo, and the own decoder refuse the same boxes."""
    pixels, divisor = photographs["china"], 4
    size, made = pixels.shape[:2], rewrite(encoded(pixels, 85, "420"))
    broken = bytearray(made.data)
    broken[int(made.grid.offsets[len(made.grid.offsets) // 2]) + 2] ^= 1
    views, scratch = (memoryview(broken), memoryview(made.grid.to_bytes())), BoxScratch()
    found = {False: [], True: []}
    for own, results in found.items():
        monkeypatch.setattr(
            "stoker.dataset.images.scaled_decoding.is_own_decoder_chosen", lambda *_, own=own: own
        )
        for box in boxes_of(size, 200, np.random.default_rng(2)):
            out = np.zeros(3 * size[0] * size[1], np.uint8)
            try:
                got = decode_scaled_box(*views, size, 1, divisor, box, out, scratch)
            except CodecError as error:
                results.append(str(error))
            else:
                results.append(got is not None)
    # Of most of the image, libjpeg-turbo decodes the whole file instead, after all its checksums.
    both = [pair for pair in zip(*found.values(), strict=True) if pair[0] is not False]
    assert all(first == second for first, second in both)
    assert {str, bool} == {type(first) for first, _ in both}


@pipeline
def reduced_crops(sample):
    image = ops.random_resized_crop(sample.image, size=16, decode="scaled")
    return {"image": ops.horizontal_flip(image)}


@pipeline
def reduced_wholes(sample):
    return {"image": ops.resize(sample.image, size=(24, 40), decode="scaled")}


@pytest.mark.usefixtures("forked_private_daemons")
@pytest.mark.parametrize("wanted", [reduced_crops, reduced_wholes])
def test_a_loader_gives_the_same_bytes_with_each_decoder(
    tmp_path, photographs, monkeypatch, wanted
):
    rows = [
        {"image": encoded(pixels, 85, SAMPLINGS[number % len(SAMPLINGS)])}
        for number, pixels in enumerate(photographs.values())
    ]
    write_dataset(tmp_path / "packed", schema.Schema((schema.image(grid=True),)), rows)
    load = {"pipeline": wanted, "batch_size": 3, "device": "numpy", "workers": 1, "seed": 3}
    seen = {}
    for way in ("libjpeg", "stoker"):
        monkeypatch.setenv("STOKER_JPEG", way)
        with Loader(str(tmp_path / "packed"), **load) as loader:
            seen[way] = [batch.image.tobytes() for _ in range(3) for batch in loader]
    assert seen["libjpeg"] == seen["stoker"]
    assert len(seen["stoker"]) == 3 * (len(rows) // 3)
