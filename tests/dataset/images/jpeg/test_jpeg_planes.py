"""Bit planes: the coefficients of a JPEG, read by the page alone; pixels, sizes, damage.

The references are a reader in plain Python, written from the contract, and libjpeg-turbo.
"""

import dataclasses
import io
import os

import numba
import numpy as np
import pytest
import simplejpeg
from commands import call, pack_folder
from damage import accept_damage
from flat_jpeg import flat_jpeg
from jpeg_boxes import GuardedDecoder, damaged, decoded, differing_boxes, encoded
from PIL import Image
from planes_page import Parameters, read_interval

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema
from stoker.dataset.images.box_decoding import BoxScratch, decode_boxed, decode_gridded
from stoker.dataset.images.jpeg import rewrite
from stoker.dataset.images.jpeg.coefficients import read_coefficients
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.images.jpeg.planes import plane_bits, plane_instructions, plane_intervals
from stoker.dataset.images.jpeg.planes.plane_files import to_jpeg, to_planes
from stoker.dataset.images.jpeg.planes.plane_form import new_parameters, read_parameters
from stoker.dataset.images.jpeg.segments import read_segments
from stoker.dataset.images.orientation import oriented
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.build import write_dataset
from stoker.jit import compiled, kernel
from stoker.pipeline import pipeline
from stoker.protocol.errors import SampleError

pytestmark = pytest.mark.slow
MUTATIONS = int(os.environ.get("STOKER_JPEG_MUTATIONS", "1500"))
SAMPLINGS = ("444", "422", "420", "440", "411", "gray")
FAILED, USAGE = 1, 2


def planes_of(data):
    made = to_planes(rewrite(data))
    assert made is not None
    return made


def views_of(made):
    return memoryview(made.data), memoryview(made.grid.to_bytes())


def differing(decoder, data, boxes, seed):
    """Return the boxes whose pixels differ from libjpeg-turbo's of the original."""
    made = planes_of(data)
    assert to_jpeg(*views_of(made)).data == rewrite(data).data
    return differing_boxes(decoder, made, simplejpeg.decode_jpeg(data), boxes, seed)


@pytest.fixture(scope="module")
def decoder():
    return BoxDecoder()


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_every_quality_and_size_has_the_pixels_of_libjpeg(photographs, decoder, sampling):
    names = list(photographs)
    sizes = [(150, 200), (101, 97), (64, 64), (7, 9), (1, 1), (90, 33), (50, 185), (200, 3)]
    for number, quality in enumerate((*range(1, 100, 9), 100)):
        height, width = sizes[number % len(sizes)]
        pixels = photographs[names[number % len(names)]][:height, :width]
        assert differing(decoder, encoded(pixels, quality, sampling), 8, number) == [], quality


def test_samplings_noise_and_wide_quantization(decoder, to_jpeg):
    for factors in (
        [(2, 1), (1, 1), (1, 1)], [(2, 2), (2, 1), (2, 1)], [(1, 4), (1, 1), (1, 1)],
        [(4, 1), (1, 1), (1, 1)], [(3, 1), (3, 1), (3, 1)],
    ):  # fmt: skip
        assert differing(decoder, flat_jpeg(37, 45, factors), 10, 1) == [], factors
    noise = (np.random.default_rng(5).integers(0, 2, (70, 90, 3)) * 255).astype(np.uint8)
    for tables in ([[1] * 64] * 2, [[255] * 64] * 2, [list(range(1, 65))] * 2):
        for subsampling in (0, 2):
            data = to_jpeg(noise, qtables=tables, subsampling=subsampling)
            assert differing(decoder, data, 6, 2) == []


def test_a_reader_written_from_the_page_finds_the_coefficients(photographs):
    for quality, sampling in ((30, "420"), (92, "444"), (100, "422"), (80, "gray")):
        made = rewrite(encoded(photographs["coffee"][:60, :90], quality, sampling))
        found = read_coefficients(made.data, read_segments(made.data))
        planes = planes_of(made.data)
        head = planes.data[: int(planes.grid.offsets[0])]
        at = planes.grid.frame - 5
        assert (head[:2], head[at : at + 2]) == (b"PL", b"\xff\xc0")
        at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
        size = int.from_bytes(head[at + 2 : at + 4], "big")
        assert head[at : at + 2] == b"\xff\xf0"
        parameters = Parameters(head[at + 4 : at + 2 + size])
        assert b"\xff\xd8" + head[2:at] == made.data[:at]
        across = planes.grid.columns * planes.grid.interval
        offsets = planes.grid.offsets.astype(int)
        for turn in range(len(offsets) - 1):
            expected, components = [], []
            for mcu in range(turn * planes.grid.interval, (turn + 1) * planes.grid.interval):
                y, x = divmod(mcu, across)
                for i, plane in enumerate(found.planes):
                    values = found.values[plane.start :][: 64 * plane.blocks]
                    values = values.reshape(plane.rows, plane.columns, 64)
                    for v in range(plane.v):
                        for h in range(plane.h):
                            expected.append(values[y * plane.v + v, x * plane.h + h])
                            components.append(i)
            data = planes.data[offsets[turn] : offsets[turn + 1]]
            assert np.array_equal(read_interval(data, components, parameters), expected)


def test_planes_of_photographs_are_hardly_larger_than_the_gridded_file(photographs):
    for quality, most in ((75, 1.05), (90, 1.05)):
        sizes = np.zeros(2)
        for pixels in photographs.values():
            made = rewrite(encoded(pixels, quality, "420"))
            sizes += len(planes_of(made.data).data), len(made.data)
        assert sizes[0] / sizes[1] < most, quality


@kernel
def _in_all_ways(plain, numbers, masks, levels, coefficients, steps, found):
    for i in range(numbers.size):
        at = numbers[i]
        some, mask = plane_next(plain, at), masks[i]
        found[0, i], found[1, i] = some, plane_few(plain, at) << np.uint64(7)
        found[2, i] = plane_low(some, at % 64)
        found[3, i] = plane_deposit(some, mask)
        found[4, i] = plane_count(mask)
        planes = (mask, mask & some, found[3, i], mask, mask & ~some)
        plane_begin(levels, 64, planes, steps, 64)
        plane_add(levels, 64, some, steps, 0)
        plane_end(levels, 64, some, coefficients, 64 * i)


plane_next, plane_few, plane_low = plane_bits.next_bits, plane_bits.few_bits, plane_bits.low_bits
plane_deposit, plane_count = plane_bits.deposit, plane_bits.bit_count
plane_begin, plane_add, plane_end = (
    plane_bits.begin_block,
    plane_bits.add_plane,
    plane_bits.end_block,
)


def test_plain_forms_and_instructions_are_alike():
    rng = np.random.default_rng(9)
    plain = rng.integers(0, 256, 64, np.uint8)
    masks = np.array([*rng.integers(0, 2**64, 40, np.uint64), 0, 2**64 - 1], np.uint64)
    numbers = rng.integers(0, 440, masks.size)
    steps = rng.integers(1, 9, 128).astype(np.uint8)
    results = []
    for run in (_in_all_ways, compiled(_in_all_ways)):
        found = np.zeros((5, masks.size), np.uint64)
        levels, coefficients = np.zeros(128, np.uint8), np.zeros(64 * masks.size, np.int16)
        run(plain, numbers, masks, levels, coefficients, steps, found)
        results.append((found, coefficients))
    assert (results[0][0] == results[1][0]).all()
    assert (results[0][1] == results[1][1]).all()
    in_turn = numba.njit(plane_instructions.deposit_in_turn)
    for bits, mask in zip(results[0][0][0], masks, strict=True):
        assert in_turn(bits, mask) == plane_bits.deposit(bits, mask)


def test_orientations(photographs, to_jpeg):
    scratch = BoxScratch()
    for turn in range(1, 9):
        data = to_jpeg(photographs["astronaut"], orientation=turn)
        whole, made = oriented(simplejpeg.decode_jpeg(data), turn), planes_of(data)
        size, out = whole.shape[:2], np.zeros_like(whole)
        box = (size[0] // 3, 5, size[0] // 2, size[1] // 2)
        assert decode_boxed(*views_of(made), size, turn, box, out, scratch)
        part = (slice(box[0], box[0] + box[2]), slice(box[1], box[1] + box[3]))
        assert np.array_equal(out[part], whole[part])
        assert decode_gridded(*views_of(made), size, turn, out, scratch)
        assert np.array_equal(out, whole)


@pytest.mark.parametrize("sampling", ["420", "444", "gray"])
def test_damaged_intervals_write_nowhere_else(photographs, sampling):
    """Without checksums, which find all of it before anything is decoded."""
    data = encoded(photographs["china"][:70, :90], 80, sampling)
    size, made = (70, 90), planes_of(data)
    made = dataclasses.replace(made, grid=dataclasses.replace(made.grid, checksums=None))
    frame, rng = made.grid.frame, np.random.default_rng(7)
    guarded, refused, shown = GuardedDecoder(), 0, 0
    for turn in range(MUTATIONS // 3):
        other, _ = damaged(made, rng, None if turn % 4 else frame)
        try:
            got = decoded(guarded, other, size, (0, 0, *size), 0)
            shown += got is not None
            refused += got is None
        except CodecError:
            refused += 1
        assert guarded.faults() == []
    assert refused > MUTATIONS // 8
    assert shown > 0


@pytest.mark.parametrize("sampling", ["420", "gray"])
def test_nothing_is_read_later_than_nine_bytes_behind_an_interval(
    photographs, sampling, monkeypatch
):
    """The plain form, in which each read is checked."""
    made = planes_of(encoded(photographs["china"][:16, :32], 95, sampling))
    offsets, kinds = (
        made.grid.offsets.astype(int),
        [0] if sampling == "gray" else [0, 0, 0, 0, 1, 2],
    )
    where = np.tile(kinds, made.grid.interval).reshape(-1, 1)
    data, parameters = made.data[offsets[0] : offsets[1]], new_parameters()
    at = made.grid.frame - 5
    at += 2 + int.from_bytes(made.data[at + 2 : at + 4], "big")
    count = len(set(kinds))
    assert read_parameters(np.frombuffer(made.data, np.uint8), at + 4, count, parameters)
    for name in ("next_bits", "few_bits"):
        read = getattr(plane_bits, name)

        def checked(plain, at, read=read):
            assert 0 <= at <= 8 * (len(plain) - plane_bits.READ_AHEAD)
            return read(plain, at)

        monkeypatch.setattr(plane_intervals, name, checked)
    rng, results = np.random.default_rng(11), []
    for turn in range(150):
        broken = np.frombuffer(data + bytes(plane_bits.READ_AHEAD), np.uint8).copy()
        for _ in range(min(turn, 3)):
            broken[int(rng.integers(0, len(data)))] = int(rng.integers(0, 256))
        slot = np.full(64 * (len(where) + 1) + 5, 77, np.int16)
        places = np.array([[0], [0], [8 * len(data)]])
        shape = (2 * slot.size, len(where))
        results.append(
            plane_intervals.decode_plane_intervals(
                broken, places, 1, slot, where, shape, parameters
            )
        )
        assert (slot[-5:] == 77).all()
    assert results[0]
    assert {False, True} == set(results)


def test_each_byte_is_in_a_checksum(photographs, decoder):
    size = (40, 50)
    made = planes_of(encoded(photographs["rocket"][: size[0], : size[1]], 85, "420"))
    for place in range(len(made.data)):
        broken = bytearray(made.data)
        broken[place] ^= 4
        other = dataclasses.replace(made, data=bytes(broken))
        with pytest.raises(CodecError, match=r"checksums|bit planes"):
            to_jpeg(*views_of(other))
    with pytest.raises(CodecError, match="does not have the checksums"):
        decoded(decoder, other, size, (0, 0, *size))


@pytest.fixture(scope="module")
def packed(tmp_path_factory, photographs, to_jpeg, to_png):
    """A folder of photographs, some of which have no planes; packed as JPEGs and as planes."""
    root = tmp_path_factory.mktemp("planes")
    (root / "s/a").mkdir(parents=True)
    profile = os.urandom(300)
    for turn, (name, pixels) in enumerate(photographs.items()):
        data = to_jpeg(pixels, orientation=turn % 8 + 1, icc_profile=profile)
        (root / "s/a" / f"{name}.jpg").write_bytes(data)
    (root / "s/a/pixels.png").write_bytes(to_png(photographs["china"]))
    out = io.BytesIO()
    Image.fromarray(photographs["china"]).save(out, "JPEG", keep_rgb=True)
    (root / "s/a/rgb.jpg").write_bytes(out.getvalue())
    pack_folder(root / "s", root / "jpeg")
    code, _, errors = call(
        "pack", root / "s", root / "planes", "--encoding", "planes", "--workers=1"
    )
    assert code == 0, errors
    return root


@pipeline
def crops(sample):
    image = ops.random_resized_crop(sample.image, size=48)
    return {"image": ops.horizontal_flip(image), "label": sample.label}


@pytest.mark.usefixtures("forked_private_daemons")
@pytest.mark.parametrize("decoder_name", ["auto", "libjpeg", "stoker"])
def test_a_loader_gives_the_same_bytes_with_each_setting(packed, monkeypatch, decoder_name):
    monkeypatch.setenv("STOKER_JPEG", decoder_name)
    load = {"pipeline": crops, "batch_size": 4, "device": "numpy", "workers": 1, "seed": 3}
    images = []
    for name in ("jpeg", "planes"):
        with Loader(str(packed / name), **load, drop_last=False) as loader:
            images.append([batch.image.copy() for batch in loader])
    assert all(map(np.array_equal, *images))


def test_unpack_gives_a_jpeg_with_pixels_and_metadata(packed, tmp_path):
    for name in ("jpeg", "planes"):
        assert call("unpack", packed / name, tmp_path / name)[0] == 0
    files = sorted((tmp_path / "jpeg/image/a").iterdir())
    assert len(files) == 8
    for path in files:
        other = tmp_path / "planes/image/a" / path.name
        assert path.read_bytes() == other.read_bytes(), path.name
        source = packed / "s/a" / path.name
        with Image.open(source) as before, Image.open(other) as after:
            assert np.array_equal(np.asarray(before), np.asarray(after))
            assert before.getexif() == after.getexif()
            assert before.info.get("icc_profile") == after.info.get("icc_profile")


def test_verify_and_notes(packed, tmp_path):
    code, printed, _ = call("verify", packed / "planes", "--workers=1")
    assert (code, "8 samples, all good" in printed) == (0, True), printed
    with open_dataset(packed / "planes") as planes, open_dataset(packed / "jpeg") as jpeg:
        field = planes.schema.field("image")
        assert (field.encoding, field.has_parts) == ("planes", True)
        begin = [bytes(planes.read("image", number)[:2]) for number in range(len(planes))]
        assert sorted(begin) == [b"PL"] * 6 + [b"\x89P", b"\xff\xd8"]
        assert "without bit planes" in str(planes.manifest.statistics.notes)
        for number in range(len(planes)):
            high, wide = planes.size("image", number)
            out = [np.zeros(3 * high * wide, np.uint8) for _ in range(3)]
            whole = jpeg.decode("image", number, out[0])
            assert np.array_equal(planes.decode("image", number, out[1]), whole)
            half = planes.decode_scaled("image", number, 2, (0, 0, high, wide), out[2])
            assert half.shape[0] in (high, -(-high // 2))


def test_a_changed_byte_is_found_before_decoding(packed, tmp_path):
    with open_dataset(packed / "planes") as dataset:
        (number,) = [n for n in range(len(dataset)) if "china" in (dataset.source(n) or "")]
        file, offset = dataset.locate("image", number)
        size, shape = dataset.read("image", number).nbytes, dataset.size("image", number)
    data = bytearray((packed / "planes" / file.name).read_bytes())
    data[offset + size - 100] ^= 1
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / file.name).write_bytes(data)
    (copy / "manifest.json").write_bytes((packed / "planes/manifest.json").read_bytes())
    accept_damage(copy)
    out = np.zeros(3 * shape[0] * shape[1], np.uint8)
    with open_dataset(copy) as dataset, pytest.raises(SampleError, match="checksums"):
        dataset.decode("image", number, out)
    code, printed, _ = call("verify", copy, "--workers=1")
    assert (code, "1 of 8 samples are bad" in " ".join(printed.split())) == (FAILED, True)
    code, _, errors = call("unpack", copy, tmp_path / "files")
    assert (code, "checksums" in errors) == (FAILED, True)


def test_options_that_exclude_each_other(packed, tmp_path):
    for flags, message in (
        (["--encoding", "plane"], "--encoding: expected planes, got 'plane'"),
        (["--encoding", "planes", "--raw"], "so it excludes --raw"),
        (["--encoding", "planes", "--no-grid"], "so it excludes --no-grid"),
    ):
        code, _, errors = call("pack", packed / "s", tmp_path / "d", *flags)
        assert (code, message in errors) == (USAGE, True), errors


def test_a_stoker_that_does_not_know_them_refuses_by_name(packed, monkeypatch):
    monkeypatch.setattr("stoker.dataset.format.manifest_check.ENCODINGS", ("raw", "jpeg", "png"))
    code, _, errors = call("ls", packed / "planes")
    assert code == FAILED
    assert "is of kind 'image' and encoding 'planes', which this Stoker" in errors


def test_a_dataset_of_rows(tmp_path, photographs, to_jpeg):
    data = to_jpeg(photographs["flower"])
    fields = (schema.image("view", "planes"), schema.label())
    write_dataset(tmp_path / "d", schema.Schema(fields), [{"view": data, "label": 1}])
    with open_dataset(tmp_path / "d") as dataset:
        assert bytes(dataset.read("view", 0)[:2]) == b"PL"
        high, wide = dataset.size("view", 0)
        got = dataset.decode("view", 0, np.zeros(3 * high * wide, np.uint8))
        assert np.array_equal(got, simplejpeg.decode_jpeg(data))
