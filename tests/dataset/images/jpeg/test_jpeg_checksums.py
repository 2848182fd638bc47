"""Checksums of gridded JPEGs: both ways to decode find every changed byte before they decode."""

import dataclasses

import llvmlite.binding
import numpy as np
import pytest
import simplejpeg
from damage import accept_damage
from llvmlite import ir

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema
from stoker.dataset.images.box_decoding import BoxScratch, decode_boxed
from stoker.dataset.images.jpeg import Splicer, check_all_parts, crc_instructions, rewrite
from stoker.dataset.images.jpeg.checksums import crc_of
from stoker.dataset.images.jpeg.decoding import BoxDecoder
from stoker.dataset.limits import CodecError
from stoker.dataset.packing.build import write_dataset
from stoker.jit import compiled, kernel
from stoker.pipeline import pipeline
from stoker.protocol.errors import SampleError

pytestmark = pytest.mark.slow
NAMED = r"id 2\b.*it does not have the checksums"
WRONG = "it does not have the checksums that its grid stores"


@kernel
def fast_crc(before, data, begin, end):
    return crc_of(before, data, begin, end)


def as_array(data):
    return np.frombuffer(data, np.uint8)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_values_of_the_standard(data, expected):
    """RFC 3720, appendix B.4."""
    for form in (crc_of, compiled(fast_crc)):
        assert form(0, as_array(data), 0, len(data)) == expected


def test_every_length_and_place_and_any_cut_have_the_same_value():
    data, fast = as_array(np.random.default_rng(1).bytes(80)), compiled(fast_crc)
    for begin in range(9):
        for end in range(begin, len(data)):
            whole = crc_of(0, data, begin, end)
            assert fast(0, data, begin, end) == whole
            for cut in (begin + (end - begin) // 3, max(begin, end - 3)):
                assert fast(fast(0, data, begin, cut), data, cut, end) == whole


@pytest.mark.parametrize(
    ("triple", "features", "used", "names"),
    [
        ("aarch64-unknown-linux-gnu", "+crc", crc_instructions.ARM, ("crc32cb", "crc32cx")),
        ("x86_64-unknown-linux-gnu", "+sse4.2,+crc32", crc_instructions.X86, ("crc32b", "crc32q")),
    ],
)
def test_other_processors_get_their_instruction(triple, features, used, names):
    word, name = ir.IntType(64), "checksum"
    module = ir.Module()
    function = ir.Function(module, ir.FunctionType(word, [word] * 3), name)
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(crc_instructions.build_crc(builder, used, *function.args))
    llvmlite.binding.initialize_all_targets()
    llvmlite.binding.initialize_all_asmprinters()
    target = llvmlite.binding.Target.from_triple(triple)
    machine = target.create_target_machine(features=features, opt=2)
    parsed = llvmlite.binding.parse_assembly(str(module))
    parsed.verify()
    text = machine.emit_assembly(parsed)
    assert all(instruction in text for instruction in names)


@pytest.fixture(scope="module")
def made(photographs, to_jpeg):
    return rewrite(to_jpeg(photographs["china"][:70, :90], icc_profile=b"x" * 300))


def refused(data, grid, box):
    """Which ways refuse a box, and whether decoding the whole does."""
    size, views = (70, 90), (memoryview(data), memoryview(grid))
    out, found = np.zeros((*size, 3), np.uint8), set()
    target = out.reshape(-1), 0, 3 * size[1]
    for name, call in {
        "libjpeg": lambda: decode_boxed(*views, size, 1, box, out, BoxScratch()),
        "stoker": lambda: BoxDecoder().decode(*views, size, box, 4000, target),
        "whole": lambda: check_all_parts(*views),
    }.items():
        try:
            call()
        except CodecError as error:
            known = WRONG in str(error) or "its grid is damaged" in str(error)
            found.add(name if known else str(error))
    return found


def test_each_byte_counts_where_it_is_needed(made):
    """A box refuses what it needs; the whole refuses every byte; nothing else differs."""
    box, grid, good = (40, 50, 9, 9), made.grid.to_bytes(), made.grid
    assert refused(made.data, grid, box) == set()
    window = Splicer().cut(memoryview(made.data), memoryview(grid), (70, 90), box, 6300)
    column = 8 * good.interval * good.mcu_width // 8
    needed = np.zeros(len(made.data), bool)
    needed[: good.jfif_end] = needed[good.head : good.offsets[0]] = True
    for cell in range(good.rows * good.columns):
        top, left = cell // good.columns * good.mcu_height, cell % good.columns * column
        inside_y = window.top <= top < window.top + window.height
        if inside_y and window.left <= left < window.left + window.width:
            needed[good.offsets[cell] - 2 : good.offsets[cell + 1]] = True  # with both markers
    rng, seen = np.random.default_rng(2), set()
    edges = [0, good.jfif_end, good.head, *good.offsets]
    places = {int(edge) + step for edge in edges for step in (-1, 0, 1)}
    places = {place for place in places if 0 <= place < len(made.data)}
    for place in sorted(places | set(rng.integers(0, len(made.data), 200).tolist())):
        broken = bytearray(made.data)
        broken[place] ^= 1 << int(rng.integers(8))
        wanted = {"libjpeg", "stoker", "whole"} if needed[place] else {"whole"}
        assert refused(bytes(broken), grid, box) == wanted, place
        seen.add(bool(needed[place]))
    assert seen == {False, True}


def test_a_changed_grid_is_refused(made):
    """All of its bytes, by a check of the whole; the checksum of an interval by its window."""
    size, good = (70, 90), made.grid.to_bytes()
    for place in range(len(good)):
        broken = bytearray(good)
        broken[place] ^= 4
        others = 24 + 4 * (made.grid.offsets.size + 1)
        if others <= place < others + 4:
            with pytest.raises(CodecError, match=WRONG):
                check_all_parts(memoryview(made.data), memoryview(bytes(broken)))
            continue
        with pytest.raises(CodecError, match=f"grid is damaged|expected the grid|{WRONG}"):
            Splicer().check(memoryview(made.data), memoryview(bytes(broken)), size)


def test_files_of_version_1_are_read_as_before(made):
    """Without checksums: the same windows, and no damage is found in what is not decoded."""
    first = dataclasses.replace(made.grid, checksums=None).to_bytes()
    assert first[0] == 1
    size, box, out = (70, 90), (3, 4, 30, 20), np.zeros((70, 90, 3), np.uint8)
    views = memoryview(made.data), memoryview(first)
    Splicer().check(*views, size)
    assert decode_boxed(*views, size, 1, box, out, BoxScratch())
    whole = simplejpeg.decode_jpeg(made.data)
    assert np.array_equal(out[3:33, 4:24], whole[3:33, 4:24])
    broken = bytearray(made.data)
    broken[made.grid.jfif_end + 30] ^= 1
    assert refused(bytes(broken), first, box) == set()


@pipeline
def crops(sample):
    return {"image": ops.random_resized_crop(sample.image, size=32)}


@pipeline
def whole_images(sample):
    return {"image": ops.resize(sample.image, size=(24, 40))}


@pytest.mark.usefixtures("forked_private_daemons")
@pytest.mark.parametrize("wanted", [crops, whole_images])
def test_a_loader_names_the_sample_whose_bytes_changed(tmp_path, photographs, to_jpeg, wanted):
    """In a quarter of an image's quantization table: both decoders would show other pixels."""
    dest = tmp_path / "packed"
    rows = [{"image": to_jpeg(pixels)} for pixels in photographs.values()]
    write_dataset(dest, schema.Schema((schema.image(grid=True),)), rows)
    with open_dataset(dest) as dataset:
        file, offset = dataset.locate("image", 2)
        place = dataset.read("image", 2).tobytes().index(b"\xff\xdb") + 20
    with (dest / file.name).open("r+b") as data:
        data.seek(offset + place)
        data.write(b"\x7f")
    accept_damage(dest)
    load = {"pipeline": wanted, "batch_size": len(rows), "device": "numpy", "workers": 1}
    with Loader(str(dest), **load) as loader, pytest.raises(SampleError, match=NAMED):
        list(loader)
