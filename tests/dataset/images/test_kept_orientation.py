"""`--orientation keep`: pixels are as they are stored, and EXIF has no effect."""

import io
import json

import numpy as np
import pytest
from commands import call
from PIL import Image, ImageOps

from stoker.dataset import open_dataset, schema, write
from stoker.dataset.format.image_conversion import Conversion
from stoker.dataset.images.orientation import KEPT, laid_back, oriented
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.verify import verify
from stoker.protocol.errors import UsageError

KEEP = Options(workers=1, orientation="keep")
FORMATS = {
    "JPEG": {"quality": 92},
    "PNG": {},
    "TIFF": {},
    "WebP": {"lossless": True},
}


def saved(pixels: np.ndarray, orientation: int, kind: str = "JPEG") -> bytes:
    exif, out = Image.Exif(), io.BytesIO()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(out, kind, exif=exif, **FORMATS[kind])
    return out.getvalue()


@pytest.fixture
def album(tmp_path, photographs):
    """A folder of photographs that EXIF turns in each of the 8 ways, and what each is as stored."""
    (tmp_path / "s").mkdir()

    def make(kind: str) -> list[np.ndarray]:
        stored = []
        for orientation in range(1, 9):
            pixels = photographs["coffee"][: 90 + orientation]
            data = saved(pixels, orientation, kind)
            (tmp_path / "s" / f"{orientation}.{kind.lower()}").write_bytes(data)
            stored.append(np.asarray(Image.open(io.BytesIO(data))) if kind == "JPEG" else pixels)
        return stored

    return make


def decoded(folder, field="image"):
    with open_dataset(folder) as dataset:
        return [dataset.decode(field, i, np.empty(10**6, np.uint8)) for i in range(len(dataset))]


@pytest.mark.parametrize("kind", FORMATS)
def test_all_orientations_of_photographs(tmp_path, album, kind):
    stored = album(kind)
    kept = pack(tmp_path / "s", tmp_path / "kept", KEEP)
    applied = pack(tmp_path / "s", tmp_path / "applied", Options(workers=1))
    for pixels, found in zip(stored, decoded(tmp_path / "kept"), strict=True):
        assert np.array_equal(found, pixels)
    turned = [oriented(pixels, number) for number, pixels in enumerate(stored, 1)]
    for pixels, found in zip(turned, decoded(tmp_path / "applied"), strict=True):
        assert np.array_equal(found, pixels)
    for number, path in enumerate(sorted((tmp_path / "s").iterdir())):
        with Image.open(path) as picture:
            assert np.array_equal(np.asarray(ImageOps.exif_transpose(picture)), turned[number])
    counts = {note.what: note.count for note in kept.manifest.statistics.notes}
    assert counts[f"image: {KEPT}"] == 7
    assert kept.manifest.statistics.fields["image"].turned == 0
    assert not any(KEPT in note.what for note in applied.manifest.statistics.notes)
    assert kept.manifest.fingerprint != applied.manifest.fingerprint
    assert verify(tmp_path / "kept", 1).holds


def test_crops_of_a_grid_and_files_as_they_came(tmp_path, album):
    stored = album("JPEG")
    first = pack(tmp_path / "s", tmp_path / "d", KEEP).manifest
    assert first.statistics.fields["image"].gridded == 8
    assert first.schema.field("image").keeps_orientation
    box = 16, 40, 32, 48
    with open_dataset(tmp_path / "d") as dataset:
        for number, pixels in enumerate(stored):
            assert dataset.size("image", number) == pixels.shape[:2]
            assert dataset.orientation("image", number) == 1
            out = np.empty(pixels.size, np.uint8)
            part = dataset.decode_box("image", number, box, out)[16:48, 40:88]
            assert np.array_equal(part, pixels[16:48, 40:88])
    plain = Options(workers=1, orientation="keep", grid=False)
    pack(tmp_path / "s", tmp_path / "plain", plain)
    with open_dataset(tmp_path / "plain") as dataset:
        for number, path in enumerate(sorted((tmp_path / "s").iterdir())):
            assert dataset.read("image", number) == path.read_bytes()


def test_made_smaller_as_stored(tmp_path, album):
    stored = album("PNG")
    options = Options(workers=1, orientation="keep", conversion=Conversion(resize=40))
    notes = pack(tmp_path / "s", tmp_path / "d", options).manifest.statistics.notes
    assert {note.what: note.count for note in notes}[f"image: {KEPT}"] == 7
    for pixels, found in zip(stored, decoded(tmp_path / "d"), strict=True):
        size = found.shape[1], found.shape[0]
        expected = Image.fromarray(pixels).resize(size, Image.Resampling.LANCZOS)
        assert min(size) == 40
        assert np.array_equal(found, np.asarray(expected))


@pytest.mark.parametrize("bands", [True, False])
def test_masks_lie_as_their_images_do(tmp_path, photographs, bands):
    pixels = photographs["rocket"]
    for folder in ("images", "masks"):
        (tmp_path / "s" / folder).mkdir(parents=True)
    (tmp_path / "s" / "images" / "a.jpg").write_bytes(saved(pixels, 6))
    values = np.ascontiguousarray(pixels[:, :, 0] // 64)
    (tmp_path / "s" / "masks" / "a.png").write_bytes(saved(values, 8, "PNG"))
    pack(tmp_path / "s", tmp_path / "d", Options(workers=1, orientation="keep", bands=bands))
    assert np.array_equal(decoded(tmp_path / "d", "mask")[0], values)


def test_a_mask_in_bands_has_the_fingerprint_of_its_pixels(tmp_path, photographs):
    values = np.ascontiguousarray(photographs["rocket"][:, :, 0] // 64)
    field = schema.mask(encoding="bands")
    rows = [{"mask": saved(values, 1, "PNG")}]
    plain = write(tmp_path / "a", [field], rows)
    kept = write(tmp_path / "b", [schema.keep_orientation(field)], rows)
    assert plain.fingerprint == kept.fingerprint


def test_outlines_are_painted_as_stored(tmp_path, photographs):
    pixels = photographs["china"]
    for folder in ("images", "labels"):
        (tmp_path / "y" / folder).mkdir(parents=True)
    (tmp_path / "y" / "data.yaml").write_text("train: images\nnames: [one]\n")
    (tmp_path / "y" / "images" / "a.jpg").write_bytes(saved(pixels, 6))
    (tmp_path / "y" / "labels" / "a.txt").write_text("0 0 0 1 0 1 0.5 0 0.5\n")
    options = Options(workers=1, orientation="keep", masks="semantic")
    pack(tmp_path / "y", tmp_path / "d", options)
    (mask,) = decoded(tmp_path / "d", "mask")
    assert mask.shape == pixels.shape[:2]
    assert mask[: mask.shape[0] // 2].all()
    assert not mask[mask.shape[0] // 2 + 1 :].any()


def test_rows_from_python(tmp_path, photographs):
    data = saved(photographs["coffee"], 6)
    field = schema.keep_orientation(schema.image())
    write(tmp_path / "d", [field], [{"image": data}])
    assert np.array_equal(decoded(tmp_path / "d")[0], np.asarray(Image.open(io.BytesIO(data))))
    with pytest.raises(
        UsageError, match="only an image or mask has an orientation to keep, got a label"
    ):
        schema.keep_orientation(schema.label())


def test_what_is_added_must_be_stored_alike(tmp_path, album):
    album("PNG")
    pack(tmp_path / "s", tmp_path / "d", KEEP)
    with pytest.raises(UsageError, match="EXIF orientation kept in the dataset, but would be"):
        pack(tmp_path / "s", tmp_path / "d", Options(workers=1, append=True))
    again = Options(workers=1, append=True, orientation="keep")
    assert pack(tmp_path / "s", tmp_path / "d", again).manifest.rows == 8


@pytest.mark.parametrize("orientation", range(1, 9))
def test_laying_back_undoes_turning(orientation):
    pixels = np.arange(7 * 5 * 3, dtype=np.uint8).reshape(7, 5, 3)
    assert np.array_equal(laid_back(oriented(pixels, orientation), orientation), pixels)


@pytest.mark.parametrize(
    ("orientation", "target", "told"),
    [
        (
            6,
            "masks",
            "if EXIF turns the photo, and the other was made on the pixels as stored, pack",
        ),
        (
            6,
            "boxes",
            "if EXIF turns the photo, and the other was made on the pixels as stored, pack",
        ),
        (3, "masks", "EXIF turns 1 of the 1 images of 'image' upright, and 'mask' must fit the"),
        (3, "boxes", "EXIF turns 1 of the 1 images of 'image' upright, and 'boxes' must fit the"),
        (1, "masks", ""),
    ],
)
def test_targets_of_turned_photos(tmp_path, photographs, orientation, target, told):
    """Exchanged sides are refused, other turns give a warning; both name the remedy."""
    pixels = photographs["rocket"]
    source = tmp_path / "s"
    (source / "images").mkdir(parents=True)
    (source / "images" / "a.jpg").write_bytes(saved(pixels, orientation))
    flags = ["--workers=1"]
    if target == "masks":
        (source / "masks").mkdir()
        Image.fromarray(pixels[:, :, 0] // 64).save(source / "masks" / "a.png")
    else:
        height, width = pixels.shape[:2]
        flags += ["--images", source / "images"]
        source = tmp_path / "a.json"
        source.write_text(
            json.dumps({
                "images": [{"id": 1, "file_name": "a.jpg", "width": width, "height": height}],
                "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [1, 2, 9, 8]}],
                "categories": [{"id": 1, "name": "rocket"}],
            })
        )  # fmt: skip
    code, out, errors = call("pack", source, tmp_path / "d", *flags)
    assert code == (1 if orientation == 6 else 0)
    said = " ".join((out + errors).split())
    assert told in said
    assert ("--orientation keep" in said) == bool(told)
    code, *_ = call("pack", source, tmp_path / "kept", *flags, "--orientation", "keep")
    assert code == 0
