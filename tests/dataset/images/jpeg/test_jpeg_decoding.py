"""Stoker's decoder of gridded JPEGs shows the pixels of libjpeg-turbo, and finds all damage.

The reference is the whole file, decoded by libjpeg-turbo through simplejpeg.
"""

import dataclasses
import hashlib
import io
import json
import os
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from damage import accept_damage
from flat_jpeg import flat_jpeg
from jpeg_boxes import GuardedDecoder, boxes_of, damaged, decoded, differing_boxes, encoded
from PIL import Image

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema
from stoker.dataset.images.box_decoding import BoxScratch, decode_boxed, decode_gridded
from stoker.dataset.images.jpeg import grid_rewrite, rewrite
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.images.jpeg.decoding.sizes import BAND
from stoker.dataset.images.jpeg.huffman import HuffmanTable
from stoker.dataset.images.orientation import oriented, upright_size
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.build import write_dataset
from stoker.pipeline import pipeline
from stoker.protocol.errors import SampleError

pytestmark = pytest.mark.slow
MUTATIONS = int(os.environ.get("STOKER_JPEG_MUTATIONS", "3000"))
FILES = int(os.environ.get("STOKER_JPEG_FILES", "30"))
FROM = int(os.environ.get("STOKER_JPEG_FROM", "0"))
SAMPLINGS = ("444", "422", "420", "440", "411", "gray")


def differing(decoder, data, boxes, seed):
    """Return the boxes that differ from libjpeg-turbo's pixels, or write outside of themselves."""
    return differing_boxes(decoder, rewrite(data), simplejpeg.decode_jpeg(data), boxes, seed)


@pytest.fixture(scope="module")
def decoder():
    return BoxDecoder()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_quality_and_size_has_the_pixels_of_libjpeg(photographs, decoder, sampling):
    names = list(photographs)
    for number, quality in enumerate((*range(1, 100, 7), 100)):
        pixels = photographs[names[number % len(names)]]
        size = [(150, 200), (101, 97), (64, 64), (7, 9), (1, 1), (90, 33), (50, 185), (200, 3)]
        height, width = size[number % len(size)]
        data = encoded(pixels[:height, :width], quality, sampling)
        assert differing(decoder, data, 12, number) == [], quality


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_narrow_and_low_images(photographs, decoder, sampling):
    for height in (1, 2, 5, 17):
        for width in (1, 2, 3, 4, 5, 6, 8, 9, 13):
            data = encoded(photographs["china"][:height, :width], 90, sampling)
            assert differing(decoder, data, 4, width) == [], (height, width)


def test_random_files_have_the_pixels_of_libjpeg(photographs, decoder):
    """Ten boxes of each; `make jpeg` takes 10,000 files. A failure names its file's number."""
    names = list(photographs)
    for number in range(FROM, FROM + FILES):
        rng = np.random.default_rng([11, number])
        pixels = photographs[names[int(rng.integers(len(names)))]]
        height, width = (int(rng.integers(1, side + 1)) for side in pixels.shape[:2])
        sampling = SAMPLINGS[int(rng.integers(len(SAMPLINGS)))]
        data = encoded(pixels[-height:, -width:], int(rng.integers(1, 101)), sampling)
        assert differing(decoder, data, 9, number) == [], number


def test_wide_and_high_images(photographs, decoder):
    for size in ((24, 12_000), (9_000, 24)):
        pixels = np.resize(photographs["flower"][:24, :200], (*size, 3))
        for sampling in ("420", "444"):
            assert differing(decoder, encoded(pixels, 85, sampling), 15, 3) == []


@pytest.mark.skipif(FILES < 10_000, reason="takes minutes and 2 GB: make jpeg")
def test_the_largest_image(photographs, decoder):
    pixels = np.resize(photographs["flower"], (9_000, 12_000, 3))
    assert differing(decoder, encoded(pixels, 85, "420"), 4, 3) == []


def test_every_edge_of_a_band_and_of_an_interval(photographs, decoder):
    data = encoded(photographs["coffee"][:140, :110], 90, "420")
    whole, made = simplejpeg.decode_jpeg(data), rewrite(data)
    for top in range(0, 16 * BAND + 3):
        for left, height, width in ((top % 37, 35, 40), (37 - top % 37, 2, 33), (top, 1, 1)):
            got = decoded(decoder, made, whole.shape[:2], (top, left, height, width))
            part = (slice(top, top + height), slice(left, left + width))
            assert np.array_equal(got[part], whole[part]), (top, left)


def test_golden_images(decoder):
    """Of docs/contracts/decoder.md: those that can have a grid have their golden pixels."""
    page = Path(__file__).parents[4] / "docs/contracts/vectors/dataset.json"
    seen = 0
    for case in json.loads(page.read_text())["pictures"]:
        try:
            made = rewrite(bytes.fromhex(case["file"]))
        except CodecError:
            continue
        stored = upright_size(case["height"], case["width"], case["orientation"])
        got = decoded(decoder, made, stored, (0, 0, *stored))
        pixels = np.ascontiguousarray(oriented(got, case["orientation"]))
        digest = hashlib.blake2b(pixels.tobytes(), digest_size=16).hexdigest()
        assert digest == case["blake2b_128"], case["what"]
        seen += 1
    assert seen >= 3


def test_samplings_in_all_forms_of_their_factors(decoder):
    for factors in (
        [(2, 1), (1, 1), (1, 1)], [(2, 2), (2, 1), (2, 1)], [(2, 2), (1, 2), (1, 2)],
        [(1, 4), (1, 1), (1, 1)], [(4, 1), (1, 1), (1, 1)], [(3, 1), (3, 1), (3, 1)],
    ):  # fmt: skip
        data = flat_jpeg(37, 45, factors)
        assert differing(decoder, data, 20, 1) == [], factors


def test_wide_quantization_and_extreme_levels(decoder, to_jpeg):
    rng = np.random.default_rng(5)
    noise = (rng.integers(0, 2, (70, 90, 3)) * 255).astype(np.uint8)
    for tables in ([[1] * 64] * 2, [[255] * 64] * 2, [list(range(1, 65))] * 2):
        for subsampling in (0, 2):
            data = to_jpeg(noise, qtables=tables, subsampling=subsampling)
            assert differing(decoder, data, 10, 2) == []


def test_huffman_tables_of_other_shapes(photographs, decoder, monkeypatch):
    """Codes of 16 bits for all symbols, and tables that change from file to file."""

    def long_codes(counts):
        found = [bytes(int(symbol) for symbol in np.flatnonzero(row)) for row in counts]
        return [HuffmanTable(bytes([0] * 15 + [len(symbols)]), symbols) for symbols in found]

    for quality in (95, 30):
        data = encoded(photographs["rocket"], quality, "420")
        assert differing(decoder, data, 5, 1) == []
        with monkeypatch.context() as patch:
            patch.setattr(grid_rewrite, "chosen_tables", long_codes)
            assert differing(decoder, data, 5, 1) == []


def test_orientations(photographs, to_jpeg, monkeypatch):
    monkeypatch.setattr("stoker.dataset.images.box_decoding.is_own_decoder_chosen", lambda _: True)
    scratch = BoxScratch()
    for turn in range(1, 9):
        data = to_jpeg(photographs["astronaut"], orientation=turn)
        whole, made = oriented(simplejpeg.decode_jpeg(data), turn), rewrite(data)
        views = memoryview(made.data), memoryview(made.grid.to_bytes())
        for box in boxes_of(whole.shape[:2], 10, np.random.default_rng(turn)):
            out = np.zeros_like(whole)
            assert decode_boxed(*views, whole.shape[:2], turn, box, out, scratch)
            part = (slice(box[0], box[0] + box[2]), slice(box[1], box[1] + box[3]))
            assert np.array_equal(out[part], whole[part])
        assert decode_gridded(*views, whole.shape[:2], turn, out, scratch)
        assert np.array_equal(out, whole)


def test_colors_other_than_ycbcr_are_left_to_libjpeg(photographs, decoder):
    pixels = photographs["coffee"]
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "JPEG", keep_rgb=True, quality=90)
    made = rewrite(out.getvalue())
    assert decoded(decoder, made, pixels.shape[:2], (0, 0, 9, 9)) is None
    ycc = rewrite(encoded(pixels, 90, "444"))
    ycc = dataclasses.replace(ycc, grid=dataclasses.replace(ycc.grid, checksums=None))
    for place in (ycc.grid.head + 1, ycc.grid.frame - 1, int(ycc.grid.offsets[0]) - 1):
        data = bytearray(ycc.data)
        data[place] ^= 1  # the head has another form
        other = dataclasses.replace(ycc, data=bytes(data))
        assert decoded(decoder, other, pixels.shape[:2], (0, 0, 9, 9)) is None


@pytest.mark.parametrize("sampling", ["420", "444", "gray"])
def test_damaged_intervals_are_refused_and_nothing_is_written_elsewhere(photographs, sampling):
    """What is shown of a damaged file is what libjpeg-turbo shows of it; without checksums."""
    data = encoded(photographs["china"][:70, :90], 80, sampling)
    size, made = (70, 90), rewrite(data)
    made = dataclasses.replace(made, grid=dataclasses.replace(made.grid, checksums=None))
    guarded, rng = GuardedDecoder(), np.random.default_rng([7, FROM])
    intervals = refused = shown = 0
    while intervals < MUTATIONS // 3:
        other, changed = damaged(made, rng)
        intervals += changed
        try:
            got = decoded(guarded, other, size, (0, 0, *size), 0)
        except CodecError:
            refused += 1
        else:
            shown += got is not None
            if got is not None:
                assert np.array_equal(got, simplejpeg.decode_jpeg(other.data))
        assert guarded.faults() == []
    assert refused > MUTATIONS // 16
    assert shown > 0


@pipeline
def pictures(sample):
    return {"image": ops.resize(sample.image, size=(24, 40))}


def accepted_by_libjpeg_alone(made, decoder, size):
    """Return a damaged form of a file that Stoker's decoder refuses and libjpeg-turbo shows."""
    rng = np.random.default_rng(3)
    for _ in range(2000):
        broken = bytearray(made.data)
        broken[int(rng.integers(made.grid.offsets[0], len(broken) - 2))] ^= 1
        other = dataclasses.replace(made, data=bytes(broken))
        try:
            simplejpeg.decode_jpeg(other.data)
        except ValueError:
            continue
        try:
            decoded(decoder, other, size, (0, 0, *size), 0)
        except CodecError:
            return other.data
    raise AssertionError("no such form was found")


@pytest.mark.usefixtures("forked_private_daemons")
def test_workers_decode_in_the_way_that_is_set(tmp_path, photographs, decoder, monkeypatch):
    """A damaged file of version 1, which has no checksums, tells the ways apart."""
    pixels = photographs["china"][:70, :90]
    made = rewrite(encoded(pixels, 80, "420"))
    made = dataclasses.replace(made, grid=dataclasses.replace(made.grid, checksums=None))
    monkeypatch.setattr("stoker.dataset.images.gridding.rewrite", lambda _: made)
    dest = tmp_path / "packed"
    write_dataset(dest, schema.Schema((schema.image(grid=True),)), [{"image": made.data}])
    with open_dataset(dest) as dataset:
        file, offset = dataset.locate("image", 0)
        assert dataset.grid("image", 0)[0] == 1
    with (dest / file.name).open("r+b") as stored:
        stored.seek(offset)
        stored.write(accepted_by_libjpeg_alone(made, decoder, pixels.shape[:2]))
    accept_damage(dest)
    load = {"pipeline": pictures, "batch_size": 1, "device": "numpy", "workers": 1}
    with Loader(str(dest), **load) as loader:
        assert len(list(loader)) == 1
    monkeypatch.setenv("STOKER_JPEG", "stoker")
    refused = pytest.raises(SampleError, match="the data of an interval does not fit its place")
    with Loader(str(dest), **load) as loader, refused:
        list(loader)
