"""Pictures made smaller, coded with loss, or stored raw: only what was asked for, and noted."""

import io
import json

import numpy as np
import pytest
import simplejpeg
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.format.image_conversion import Conversion, smaller
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import DatasetError, UsageError
from stoker.protocol.ragged import unpack_items


def notes(report):
    return {note.what: note.count for note in report.manifest.statistics.notes}


def packed(source, dest, **options):
    return pack(source, dest, Options(workers=1, conversion=Conversion(**options)))


def decoded(dataset, field, number):
    return dataset.decode(field, number, np.empty(2**20, np.uint8)).copy()


@pytest.fixture
def turned_folder(tmp_path, photographs, to_jpeg, to_png):
    """A large JPEG that EXIF turns, a small JPEG, and a PNG."""
    root = tmp_path / "source"
    root.mkdir()
    (root / "a.jpg").write_bytes(to_jpeg(photographs["coffee"], 6))
    (root / "b.jpg").write_bytes(to_jpeg(photographs["rocket"][:50, :40]))
    (root / "c.png").write_bytes(to_png(photographs["china"]))
    return root


def test_without_more_nothing_is_lost_but_size(tmp_path, turned_folder):
    pack(turned_folder, tmp_path / "whole", Options(workers=1))
    report = packed(turned_folder, tmp_path / "d", resize=64)
    assert notes(report) == {"image: made smaller, to a shorter side of 64": 2}
    with open_dataset(tmp_path / "d") as dataset, open_dataset(tmp_path / "whole") as whole:
        for number in (0, 2):
            pixels = decoded(whole, "image", number)
            height, width = smaller(pixels.shape[:2], 64)
            assert min(height, width) == 64
            expected = Image.fromarray(pixels).resize((width, height), Image.Resampling.LANCZOS)
            assert np.array_equal(decoded(dataset, "image", number), np.asarray(expected))
        assert bytes(dataset.read("image", 1)) == bytes(whole.read("image", 1))  # small already


def test_coded_with_loss(tmp_path, turned_folder):
    pack(turned_folder, tmp_path / "whole", Options(workers=1))
    report = packed(turned_folder, tmp_path / "d", resize=64, quality=90)
    assert notes(report) == {
        "image: made smaller, to a shorter side of 64": 2,
        "image: re-encoded as JPEG of quality 90, with loss": 3,
    }
    assert report.manifest.statistics.fields["image"].gridded == 3
    with open_dataset(tmp_path / "d") as dataset, open_dataset(tmp_path / "whole") as whole:
        for number in range(3):
            pixels = Image.fromarray(decoded(whole, "image", number))
            height, width = smaller((pixels.height, pixels.width), 64)
            shrunk = np.asarray(pixels.resize((width, height), Image.Resampling.LANCZOS))
            out = io.BytesIO()
            Image.fromarray(shrunk).save(out, "JPEG", quality=90, subsampling="4:2:0")
            expected = simplejpeg.decode_jpeg(out.getvalue())
            assert np.array_equal(decoded(dataset, "image", number), expected)


def test_raw_pixels_are_those_of_the_files(tmp_path, turned_folder):
    pack(turned_folder, tmp_path / "whole", Options(workers=1))
    report = packed(turned_folder, tmp_path / "d", raw=True)
    assert notes(report) == {}
    with open_dataset(tmp_path / "d") as dataset, open_dataset(tmp_path / "whole") as whole:
        assert dataset.schema.field("image").encoding == "raw"
        for number in range(3):
            assert np.array_equal(dataset.read("image", number), decoded(whole, "image", number))


def test_masks_take_the_nearest_pixel(tmp_path, parallel_folders, photographs):
    report = packed(parallel_folders, tmp_path / "d", resize=50)
    assert notes(report)["mask: made smaller, to a shorter side of 50"] == 6
    with open_dataset(tmp_path / "d") as dataset:
        for number, name in enumerate(sorted(photographs)):
            mask = Image.fromarray(photographs[name][:, :, 0] // 64)
            height, width = smaller((mask.height, mask.width), 50)
            expected = mask.resize((width, height), Image.Resampling.NEAREST)
            assert np.array_equal(decoded(dataset, "mask", number), np.asarray(expected))
            assert dataset.size("image", number) == (height, width)


def test_boxes_and_keypoints_move_with_their_picture(tmp_path, photographs, to_jpeg):
    height, width = photographs["flower"].shape[:2]
    (tmp_path / "a.jpg").write_bytes(to_jpeg(photographs["flower"]))
    whole = {"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, width, height]}
    described = {
        "images": [{"id": 1, "file_name": "a.jpg", "height": height, "width": width}],
        "annotations": [{**whole, "keypoints": [width / 2 - 0.5, height / 4 - 0.5, 2]}],
        "categories": [{"id": 1, "name": "flower", "keypoints": ["center"]}],
    }
    (tmp_path / "coco.json").write_text(json.dumps(described))
    packed(tmp_path / "coco.json", tmp_path / "d", resize=70)
    small = smaller((height, width), 70)
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.size("image", 0) == small
        found = {
            name: unpack_items(dataset.schema.field(name).items.fields, dataset.read(name, 0))
            for name in ("boxes", "keypoints")
        }
        assert found["boxes"]["xyxy"].tolist() == [[0, 0, small[1], small[0]]]
        assert found["keypoints"]["xy"].tolist() == [[small[1] / 2, small[0] / 4]]


def test_partners_of_other_sizes_are_bad_as_ever(tmp_path, parallel_folders, photographs, to_png):
    wrong = photographs["rocket"][:100, :100, 0]
    (parallel_folders / "masks" / "rocket.png").write_bytes(to_png(wrong))
    (parallel_folders / "images" / "china.jpg").write_bytes(b"no picture")
    with pytest.raises(DatasetError) as caught:
        packed(parallel_folders, tmp_path / "d", resize=50)
    assert "images/rocket.jpg: it has" in str(caught.value)
    assert (
        "but masks/rocket.png has 100x100; if that is meant, declare it with --field NAME="
        in str(caught.value)
    )
    assert "images/china.jpg: expected a JPEG" in str(caught.value)


def test_raw_arrays_can_become_jpegs(tmp_path, photographs):
    pixels = np.stack([photographs["china"][:48, :64]] * 3)
    np.save(tmp_path / "images.npy", pixels)
    packed(tmp_path / "images.npy", tmp_path / "a", quality=80)
    packed(tmp_path / "images.npy", tmp_path / "b", resize=24)
    with open_dataset(tmp_path / "a") as dataset:
        assert dataset.schema.field("image").encoding == "jpeg"
        assert np.abs(decoded(dataset, "image", 1).astype(int) - pixels[1]).mean() < 6
    with open_dataset(tmp_path / "b") as dataset:
        assert dataset.schema.field("image").encoding == "raw"
        assert dataset.read("image", 1).shape == (24, 32, 3)


@pytest.mark.parametrize(
    ("size", "resize", "expected"),
    [
        ((100, 200), 50, (50, 100)),
        ((200, 100), 50, (100, 50)),
        ((101, 200), 50, (50, 99)),
        ((50, 200), 50, (50, 200)),
        ((49, 49), 50, (49, 49)),
        ((3, 10000), 1, (1, 3333)),
    ],
)
def test_sides_shrink_alike_and_never_grow(size, resize, expected):
    assert smaller(size, resize) == expected


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"resize": 0}, "--resize: expected a side of 1 to 65535 pixels, got 0"),
        ({"quality": 101}, "--quality: expected 1 to 100, got 101"),
        ({"quality": 90, "raw": True}, "--quality and --raw exclude each other"),
    ],
)
def test_wishes_that_cannot_be(tmp_path, image_folder, wish, message):
    with pytest.raises(UsageError, match=message):
        packed(image_folder, tmp_path / "d", **wish)
