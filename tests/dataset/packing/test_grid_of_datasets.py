"""Datasets whose JPEGs have grids: any box of them has the pixels of the whole picture."""

import io

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from stoker.dataset import open_dataset, schema
from stoker.dataset.images.orientation import oriented
from stoker.dataset.packing.build import write_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.verify import verify
from stoker.protocol.errors import SampleError, UsageError


@pytest.fixture(scope="module")
def files(photographs, to_jpeg):
    """JPEGs of all orientations and samplings, one that cannot be rewritten, and a PNG."""
    names, found = list(photographs), []
    for orientation in range(1, 9):
        pixels = photographs[names[orientation % len(names)]]
        found.append(
            to_jpeg(
                pixels,
                orientation=orientation,
                subsampling=orientation % 3,
                progressive=orientation % 2 == 0,
            )
        )
    for mode, form in (("CMYK", "JPEG"), ("RGB", "PNG")):
        out = io.BytesIO()
        Image.fromarray(photographs["coffee"]).convert(mode).save(out, form)
        found.append(out.getvalue())
    return found


@pytest.fixture(scope="module")
def dataset(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gridded") / "d"
    write_dataset(folder, schema.Schema((schema.image(grid=True),)), [{"image": f} for f in files])
    with open_dataset(folder) as opened:
        yield opened


def boxes(size, count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        h, w = (int(rng.integers(1, side + 1)) for side in size)
        yield int(rng.integers(0, size[0] - h + 1)), int(rng.integers(0, size[1] - w + 1)), h, w


def test_every_box_has_the_pixels_of_the_whole(dataset, files):
    for number, file in enumerate(files):
        size = dataset.size("image", number)
        memory = np.empty(size[0] * size[1] * 3, np.uint8)
        whole = dataset.decode("image", number, memory).copy()
        if number < 8:  # the original, decoded by itself
            assert np.array_equal(whole, oriented(simplejpeg.decode_jpeg(file), number + 1))
        for box in boxes(size, 60, number):
            top, left, height, width = box
            memory[:] = 0x55
            got = dataset.decode_box("image", number, box, memory)
            assert got.shape == whole.shape
            part = (slice(top, top + height), slice(left, left + width))
            assert np.array_equal(got[part], whole[part]), (number, box)


def test_small_boxes_are_not_decoded_whole(dataset):
    size = dataset.size("image", 0)
    memory = np.full(size[0] * size[1] * 3, 0x55, np.uint8)
    got = dataset.decode_box("image", 0, (5, 6, 20, 30), memory)
    outside = np.ones(size, bool)
    outside[5:25, 6:36] = False
    assert (got[outside] == 0x55).all()


@pytest.mark.parametrize(
    "box", [(-1, 0, 2, 2), (0, 0, 0, 2), (0, 0, 10000, 2), (0, 150, 2, 10000), (149, 0, 90, 1)]
)
def test_a_box_outside_of_the_picture_is_refused(dataset, box):
    size = dataset.size("image", 0)
    with pytest.raises(UsageError, match="expected a box inside its"):
        dataset.decode_box("image", 0, box, np.empty(size[0] * size[1] * 3, np.uint8))


def test_what_has_a_grid_and_what_has_none_is_told(dataset, files):
    seen = dataset.manifest.statistics
    assert seen.fields["image"].gridded == 8
    assert seen.fields["image"].came_bytes == sum(map(len, files[:8]))
    stored = [len(dataset.read("image", n)) + len(dataset.grid("image", n)) for n in range(8)]
    assert seen.fields["image"].gridded_bytes == sum(stored)
    (note,) = seen.notes
    assert note.what.startswith("image: JPEG stored unchanged")
    assert note.what.endswith("4 components")
    assert note.examples == ("row 8",)


def test_what_lies_behind_the_end_of_a_picture_is_kept(tmp_path, photographs, to_jpeg):
    first, second = (Image.fromarray(photographs[name]) for name in ("coffee", "china"))
    out = io.BytesIO()
    first.save(out, "MPO", save_all=True, append_images=[second])
    files = [out.getvalue(), to_jpeg(photographs["rocket"]) + bytes(7)]
    (tmp_path / "s").mkdir()
    for number, data in enumerate(files):
        (tmp_path / "s" / f"{number}.jpg").write_bytes(data)
    seen = pack(tmp_path / "s", tmp_path / "d", Options(workers=1)).manifest.statistics
    (note,) = seen.notes
    assert note.what.startswith("image: JPEG stored unchanged")
    assert note.what.endswith("bytes after its end, such as further images (MPO)")
    assert note.examples == ("0.jpg", "1.jpg")
    with open_dataset(tmp_path / "d") as opened:
        for number, data in enumerate(files):
            assert opened.read("image", number) == data
            assert opened.grid("image", number) is None
            pixels = opened.decode("image", number, np.empty(10**6, np.uint8))
            assert np.array_equal(pixels, simplejpeg.decode_jpeg(data))


def test_packing_makes_grids_unless_told_not_to(tmp_path, image_folder):
    with_grids = pack(image_folder, tmp_path / "a", Options(workers=2)).manifest
    without = pack(image_folder, tmp_path / "b", Options(workers=1, grid=False)).manifest
    assert with_grids.statistics.fields["image"].gridded > 0
    assert without.statistics.fields["image"].gridded == 0
    assert with_grids.schema.field("image").grid_column == "image.grid"
    assert without.schema.field("image").grid_column is None
    with open_dataset(tmp_path / "a") as a, open_dataset(tmp_path / "b") as b:
        for number in range(len(a)):
            pixels = []
            for opened in (a, b):
                height, width = opened.size("image", number)
                pixels.append(
                    opened.decode("image", number, np.empty(height * width * 3, np.uint8))
                )
            assert np.array_equal(*pixels)
    assert verify(tmp_path / "a").holds


def test_a_damaged_grid_is_an_error_of_its_sample(tmp_path, files):
    write_dataset(tmp_path / "d", schema.Schema((schema.image(grid=True),)), [{"image": files[0]}])
    with open_dataset(tmp_path / "d") as opened:
        (file,) = opened.manifest.files
        place = file.columns["image.grid"].data.offset
        path, size = tmp_path / "d" / file.name, opened.size("image", 0)
    memory = np.empty(size[0] * size[1] * 3, np.uint8)
    data = bytearray(path.read_bytes())
    data[place + 24 : place + 28] = b"\xff\xff\xff\x7f"
    path.write_bytes(data)
    with (
        open_dataset(tmp_path / "d") as opened,
        pytest.raises(SampleError, match="its grid is damaged"),
    ):
        opened.decode_box("image", 0, (0, 0, 8, 8), memory)
    report = verify(tmp_path / "d")
    assert not report.holds
    assert "its grid is damaged" in report.bad_rows[0].reason
