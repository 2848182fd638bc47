"""Pictures in bands: lossless, any box of them, and damage is met."""

import hashlib
import struct
import zlib

import lz4.block
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.dataset import open_dataset, schema
from stoker.dataset.images.bands import BAND_BYTES, decode_bands, encode_bands
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.build import write_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.verify import verify
from stoker.protocol.errors import SampleError


def by_the_page(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Decode as docs/contracts/dataset.md says, knowing nothing of `images.bands`."""
    name, rows, count = struct.unpack_from("<4sII", data)
    assert name == b"band"
    table = struct.unpack_from(f"<{2 * count}I", data, 12)
    place, found = 12 + 8 * count, []
    start = place
    for band, (end, checksum) in enumerate(zip(table[::2], table[1::2], strict=True)):
        packed = data[start : place + end]
        assert zlib.crc32(packed) == checksum
        size = min(rows, shape[0] - band * rows) * int(np.prod(shape[1:]))
        stored = len(packed) == size
        found.append(packed if stored else lz4.block.decompress(packed, uncompressed_size=size))
        start = place + end
    return np.frombuffer(b"".join(found), np.uint8).reshape(shape)


def classes(shape, seed, noisy):
    rng = np.random.default_rng(seed)
    if noisy:
        return rng.integers(0, 256, shape, np.uint8)
    blocks = rng.integers(0, 20, [-(-side // 16) for side in shape[:2]], np.uint8)
    grown = np.kron(blocks, np.ones((16, 16), np.uint8))[: shape[0], : shape[1]]
    return np.ascontiguousarray(
        np.broadcast_to(grown.reshape(*shape[:2], *[1] * (len(shape) - 2)), shape)
    )


sides = st.integers(1, 700)


@settings(max_examples=60, deadline=None)
@given(st.tuples(sides, sides), st.sampled_from([(), (3,)]), st.booleans(), st.integers(0, 99))
def test_a_picture_and_any_box_of_it(size, tail, noisy, seed):
    pixels = classes((*size, *tail), seed, noisy)
    data = encode_bands(pixels)
    assert np.array_equal(by_the_page(data, pixels.shape), pixels)
    out = np.full_like(pixels, 255)
    decode_bands(memoryview(data), out)
    assert np.array_equal(out, pixels)
    rng = np.random.default_rng(seed)
    top, left = (int(rng.integers(0, side)) for side in size)
    height, width = (
        int(rng.integers(1, size[0] - top + 1)),
        int(rng.integers(1, size[1] - left + 1)),
    )
    out[...], expected = 7, np.full_like(pixels, 7)
    decode_bands(data, out, (top, left, height, width))
    box = (slice(top, top + height), slice(left, left + width))
    expected[box] = pixels[box]
    assert np.array_equal(out, expected)


def test_a_box_reads_its_bands_alone():
    pixels = classes((800, 400), 1, noisy=False)
    data = bytearray(encode_bands(pixels))
    rows = struct.unpack_from("<4sII", data)[1]
    assert rows == BAND_BYTES // 400
    data[-1] ^= 255
    out = np.zeros_like(pixels)
    decode_bands(data, out, (0, 0, 800 - rows, 400))
    with pytest.raises(CodecError, match="the checksum of a band differs"):
        decode_bands(data, out)


def test_damage_is_met_whatever_it_is():
    pixels = classes((700, 200), 3, noisy=False)
    data = encode_bands(pixels)
    rng, refused = np.random.default_rng(5), 0
    for trial in range(1500):
        bad = bytearray(data)
        if trial % 3 == 0:
            bad = bad[: int(rng.integers(0, len(bad)))]
        elif trial % 3 == 1:
            bad[int(rng.integers(0, len(bad)))] ^= int(rng.integers(1, 256))
        else:
            place = int(rng.integers(0, len(bad) - 8))
            bad[place : place + 8] = rng.bytes(8)
        out = np.zeros_like(pixels)
        try:
            decode_bands(bytes(bad), out)
        except CodecError:
            refused += 1
        else:
            assert np.array_equal(out, pixels)
    assert refused > 1490


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:5], "it is truncated"),
        (lambda data: b"bond" + data[4:], "expected the head of an image of 700 rows in bands"),
        (lambda data: data[:20], "its table of bands is truncated"),
        (lambda data: data + b"x", "its table of bands does not fit its length"),
    ],
)
def test_what_is_said_of_damage(change, message):
    pixels = classes((700, 200), 3, noisy=False)
    with pytest.raises(CodecError, match=message):
        decode_bands(change(encode_bands(pixels)), np.zeros_like(pixels))


def test_packed_masks_are_their_files(parallel_folders, tmp_path):
    """Bands or files: the same pixels, the same boxes; a fingerprint of their own."""
    for name, bands in (("bands", True), ("files", False)):
        pack(parallel_folders, tmp_path / name, Options(workers=1, bands=bands))
    with open_dataset(tmp_path / "bands") as banded, open_dataset(tmp_path / "files") as files:
        assert banded.schema.field("mask").encoding == "bands"
        assert files.schema.field("mask").encoding == "png"
        assert banded.fingerprint != files.fingerprint
        for number in range(len(files)):
            size = files.size("mask", number)
            assert banded.size("mask", number) == size
            assert banded.orientation("mask", number) == 1
            memory, part = np.empty(size, np.uint8).ravel(), np.empty(size, np.uint8).ravel()
            whole = files.decode("mask", number, memory)
            box = (size[0] // 3, size[1] // 4, size[0] // 2, size[1] // 2)
            inner = (slice(box[0], box[0] + box[2]), slice(box[1], box[1] + box[3]))
            assert np.array_equal(banded.decode_box("mask", number, box, part)[inner], whole[inner])
            assert np.array_equal(banded.decode("mask", number, part), whole)
    assert verify(tmp_path / "bands", 1).holds


def test_a_turned_image_lies_upright_in_its_bands(photographs, to_jpeg, tmp_path):
    file = to_jpeg(photographs["coffee"], orientation=6)
    for name in ("bands", "encoded"):
        write_dataset(tmp_path / name, schema.Schema((schema.image("x", name),)), [{"x": file}])
    found = []
    for name in ("bands", "encoded"):
        with open_dataset(tmp_path / name) as dataset:
            size = dataset.size("x", 0)
            found.append(dataset.decode("x", 0, np.empty(3 * size[0] * size[1], np.uint8)))
    assert np.array_equal(*found)


def test_the_digest_is_that_of_the_pixels(tmp_path):
    """The codec may write other bytes one day: the fingerprint stays."""
    pixels = classes((40, 50), 2, noisy=False)
    fields = (schema.mask(encoding="bands"),)
    write_dataset(tmp_path / "d", schema.Schema(fields), [{"mask": pixels}])
    with open_dataset(tmp_path / "d") as dataset:
        content = struct.pack("<II", 40, 50) + pixels.tobytes()
        expected = hashlib.blake2b(struct.pack("<Q", len(content)) + content, digest_size=16)
        assert dataset.digest(0) == expected.digest()


def test_damage_in_a_dataset_names_the_sample(tmp_path):
    pixels = classes((40, 50), 2, noisy=False)
    fields = (schema.mask(encoding="bands"),)
    write_dataset(tmp_path / "d", schema.Schema(fields), [{"mask": pixels}, {"mask": pixels}])
    with open_dataset(tmp_path / "d") as dataset:
        file, place = dataset.locate("mask", 1)
    path = tmp_path / "d" / file.name
    data = bytearray(path.read_bytes())
    data[place + 30] ^= 1
    path.write_bytes(data)
    with open_dataset(tmp_path / "d") as dataset:
        memory = np.empty(2000, np.uint8)
        dataset.decode("mask", 0, memory)
        with pytest.raises(SampleError, match=r"id 1, field 'mask'.*checksum of a band differs"):
            dataset.decode("mask", 1, memory)
        with pytest.raises(SampleError, match="checksum of a band differs"):
            dataset.decode_box("mask", 1, (0, 0, 3, 3), memory)
    assert [row.id for row in verify(tmp_path / "d", 1).bad_rows] == [1]
