"""Huffman tables that packed JPEGs share: which files have them, and that only their bytes count.

References: ITU-T T.81 for the tables, libjpeg-turbo and Pillow for the pixels.
"""

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
import skimage.data
from commands import call
from damage import accept_damage
from jpeg_boxes import GuardedDecoder, decoded, encoded
from PIL import Image
from sample_photographs import sample_photographs

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset
from stoker.dataset.images.jpeg import rewrite, table_choice
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.images.jpeg.shared_tables import SETS
from stoker.dataset.limits import CodecError
from stoker.pipeline import pipeline
from stoker.protocol.errors import SampleError

pytestmark = pytest.mark.slow
VECTORS = Path(__file__).parents[4] / "docs/contracts/vectors/jpeg-grid.json"
SIZE = (250, 300)


def segment_of(data):
    """Return the body of a rewritten file's DHT segment."""
    (at,) = [at for at in range(len(data)) if data[at : at + 2] == b"\xff\xc4"][:1]
    return data[at + 4 : at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")]


def set_of(data):
    """Return the number of a rewritten file's shared set; None: it has its own tables."""
    found = segment_of(data)
    halves = [tables[: len(tables) // 2] for tables in SETS]
    return next((n for n, pair in enumerate(zip(SETS, halves, strict=True)) if found in pair), None)


def pixels_of(file):
    return np.asarray(Image.open(io.BytesIO(file)).convert("RGB"))


@pytest.fixture(scope="module")
def files():
    """JPEGs of one size: photographs of several qualities and samplings, noise, a flat area."""
    photographs = [skimage.data.astronaut(), skimage.data.coffee(), *sample_photographs()]
    cuts = [pixels[-SIZE[0] :, : SIZE[1]] for pixels in photographs]
    qualities, samplings = (95, 85, 75, 90, 60, 92, 95, 75), ("420", "444", "422", "gray") * 2
    made = [encoded(*kind) for kind in zip(cuts * 2, qualities, samplings, strict=True)]
    noise = np.random.default_rng(1).integers(0, 256, (*SIZE, 3), np.uint8)
    flat = np.full((*SIZE, 3), 90, np.uint8)
    return [*made, encoded(noise, 100, "420"), encoded(flat, 50, "420"), encoded(noise, 90, "gray")]


@pytest.mark.parametrize("number", range(len(SETS)))
def test_a_set_is_valid_complete_and_that_of_the_page(number):
    """The tables of a DHT, T.81 B.2.4.2, with all symbols of baseline files: annexes F.1 and C."""
    body, place = SETS[number], 0
    for kind in (0x00, 0x10, 0x01, 0x11):
        assert body[place] == kind
        counts = body[place + 1 : place + 17]
        symbols = body[place + 17 : place + 17 + sum(counts)]
        sizes, runs = range(1, 11), range(16)
        coefficients = {run << 4 | size for run in runs for size in sizes} | {0x00, 0xF0}
        assert set(symbols) == (coefficients if kind >> 4 else set(range(12)))
        assert len(set(symbols)) == len(symbols)
        used = sum(count << 16 - length for length, count in enumerate(counts, 1))
        assert used < 1 << 16, "the code of all ones stays free"
        place += 17 + len(symbols)
    assert place == len(body)
    assert body.hex() == json.loads(VECTORS.read_text())["shared_tables"][number]


def test_a_file_grows_by_little_or_has_tables_of_its_own(files, monkeypatch):
    shared = [rewrite(file).data for file in files]
    monkeypatch.setattr(table_choice, "MOST_GROWTH_PERCENT", -100)
    own = [rewrite(file).data for file in files]
    assert [set_of(data) for data in own] == [None] * len(files)
    found = [set_of(data) for data in shared]
    assert len({*found} - {None}) > 1
    assert None in found
    for file, mine, ours, number in zip(files, own, shared, found, strict=True):
        assert np.array_equal(pixels_of(ours), pixels_of(file))
        assert (ours == mine) == (number is None)
        assert len(ours) <= 1.045 * len(mine), "stuffed bytes are not counted beforehand"


def test_files_with_all_kinds_of_tables_in_turns(files):
    """A place is filled once; a gray file may come first, and fills the places of chroma too."""
    decoder, made = BoxDecoder(), [rewrite(file) for file in files]
    first = sorted(range(len(files)), key=lambda n: len(segment_of(made[n].data)))
    for number in [*first, *np.random.default_rng(2).permutation(len(files)), *first]:
        got = decoded(decoder, made[number], SIZE, (0, 0, *SIZE))
        assert np.array_equal(got, pixels_of(files[number])), number


def test_changed_tables_are_never_taken_for_shared_ones(files):
    """Each byte of a DHT in turn, without checksums: what is shown is what libjpeg shows."""
    made = rewrite(files[0])
    made = dataclasses.replace(made, grid=dataclasses.replace(made.grid, checksums=None))
    size, box, rng = SIZE, (0, 0, *SIZE), np.random.default_rng(4)
    assert set_of(made.data) is not None
    at, guarded, seen = made.data.index(segment_of(made.data)), GuardedDecoder(), []
    for place in range(at - 2, at + len(segment_of(made.data))):
        broken = bytearray(made.data)
        broken[place] ^= 1 << int(rng.integers(8))
        other = dataclasses.replace(made, data=bytes(broken))
        try:
            got = decoded(guarded, other, size, box)
        except CodecError:
            seen.append("refused")
        else:
            seen.append("left" if got is None else "shown")
            if got is not None:
                assert np.array_equal(got, simplejpeg.decode_jpeg(other.data))
        assert guarded.faults() == []
        assert place % 40 or np.array_equal(decoded(guarded, made, size, box), pixels_of(files[0]))
    assert min(map(seen.count, ("refused", "left", "shown"))) > 0


@pipeline
def middle(sample):
    return {"image": ops.center_crop(sample.image, size=(150, 200))}


@pytest.fixture(scope="module")
def packed(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared-tables")
    (folder / "source" / "x").mkdir(parents=True)
    for number, file in enumerate(files):
        (folder / "source" / "x" / f"{number:02}.jpg").write_bytes(file)
    code, _, error = call("pack", folder / "source", folder / "packed", "--workers=1")
    assert code == 0, error
    return folder / "packed"


@pytest.mark.usefixtures("forked_private_daemons")
def test_both_decoders_show_the_pixels_of_the_files(packed, files, monkeypatch):
    with open_dataset(packed) as dataset:
        stored = [bytes(dataset.read("image", number)) for number in range(len(files))]
    assert len({set_of(data) for data in stored}) > 2
    for data, file in zip(stored, files, strict=True):
        assert np.array_equal(pixels_of(data), pixels_of(file))
    expected = [pixels_of(file)[50:200, 50:250] for file in files]
    for way in ("stoker", "libjpeg"):
        monkeypatch.setenv("STOKER_JPEG", way)
        load = {"pipeline": middle, "batch_size": 1, "device": "numpy", "workers": 1}
        with Loader(str(packed), shuffle=False, **load) as loader:
            got = [batch.image[0].copy() for _ in range(2) for batch in loader]
        assert np.array_equal(got, [*expected, *expected]), way


@pytest.mark.parametrize("way", ["stoker", "libjpeg"])
@pytest.mark.usefixtures("forked_private_daemons")
def test_a_changed_byte_of_shared_tables_is_found(packed, files, tmp_path, way, monkeypatch):
    with open_dataset(packed) as dataset:
        data = bytes(dataset.read("image", 0))
        file, offset = dataset.locate("image", 0)
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in packed.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    place = offset + data.index(segment_of(data)) + 30
    with (copy / file.name).open("r+b") as stored:
        stored.seek(place)
        byte = stored.read(1)[0]
        stored.seek(place)
        stored.write(bytes([byte ^ 1]))
    accept_damage(copy)
    monkeypatch.setenv("STOKER_JPEG", way)
    load = {"pipeline": middle, "batch_size": 1, "device": "numpy", "workers": 1}
    refused = pytest.raises(SampleError, match="it does not have the checksums")
    with Loader(str(copy), shuffle=False, **load) as loader, refused:
        list(loader)
