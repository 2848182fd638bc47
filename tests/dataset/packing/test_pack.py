"""Packing folders: what goes in comes out, with any number of workers; bad files are all named."""

import io
import os
import re
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from files import contents
from PIL import Image

from stoker.dataset import open_dataset
from stoker.dataset.packing.build import Cut
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import DatasetError, ResourceError, UsageError

ONE = Options(workers=1)
AS_THEY_CAME = Options(workers=1, grid=False, bands=False)


def test_image_folder(tmp_path, image_folder):
    report = pack(image_folder, tmp_path / "d", AS_THEY_CAME)
    files = sorted(image_folder.rglob("*.*"), key=lambda path: path.relative_to(image_folder).parts)
    assert report.kind == "folder"
    assert report.manifest.rows == len(files) == 6
    with open_dataset(tmp_path / "d") as dataset:
        assert [field.name for field in dataset.schema.fields] == ["image", "label"]
        assert dataset.schema.field("label").classes == ("animals", "things")
        assert dataset.schema.field("image").encoding == "encoded"
        for number, path in enumerate(files):
            relative = path.relative_to(image_folder)
            assert dataset.read("image", number) == path.read_bytes()
            assert dataset.source(number) == str(relative)
            assert dataset.read("label", number) == ["animals", "things"].index(relative.parts[0])
    assert report.manifest.statistics.fields["label"].per_class == (3, 3)


def test_parallel_folders(tmp_path, parallel_folders, photographs):
    report = pack(parallel_folders, tmp_path / "d", AS_THEY_CAME)
    assert report.kind == "parallel"
    out = np.empty(10**6, np.uint8)
    with open_dataset(tmp_path / "d") as dataset:
        assert [(f.name, f.kind, f.encoding) for f in dataset.schema.fields] == [
            ("image", "image", "jpeg"),
            ("mask", "mask", "png"),
        ]
        for number, name in enumerate(sorted(photographs)):
            path = parallel_folders / "images" / f"{name}.jpg"
            assert dataset.read("image", number) == path.read_bytes()
            mask = dataset.decode("mask", number, out)
            assert np.array_equal(mask, photographs[name][:, :, 0] // 64)
            assert dataset.size("image", number) == dataset.size("mask", number) == mask.shape


def test_parallel_folders_with_classes_and_a_third_folder(tmp_path, photographs, to_png):
    root = tmp_path / "s"
    for folder in ("images", "label_maps", "depth"):
        for number, pixels in enumerate(list(photographs.values())[:4]):
            place = root / folder / ("cat" if number < 2 else "dog")
            place.mkdir(parents=True, exist_ok=True)
            stored = pixels if folder != "label_maps" else pixels[:, :, 0] // 64
            (place / f"{number}.png").write_bytes(to_png(stored))
    (root / "notes").mkdir()
    (root / "notes" / "0.txt").touch()
    report = pack(root, tmp_path / "d", Options(workers=1, fields={"label_maps": "mask"}))
    with open_dataset(tmp_path / "d") as dataset:
        found = [(field.name, field.kind) for field in dataset.schema.fields]
        assert found == [
            ("image", "image"),
            ("depth", "image"),
            ("label_map", "mask"),
            ("label", "label"),
        ]
        assert dataset.schema.field("label").classes == ("cat", "dog")
        assert [int(dataset.read("label", number)) for number in range(4)] == [0, 0, 1, 1]
    assert report.ignored == {".txt files": 1, "notes/ (no image in it)": 1}


def test_flat_folder_has_no_label(tmp_path, photographs, to_jpeg):
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a.jpg").write_bytes(to_jpeg(photographs["rocket"]))
    (tmp_path / "s" / ".hidden.jpg").write_bytes(b"not looked at")
    (tmp_path / "s" / "readme.txt").touch()
    report = pack(tmp_path / "s", tmp_path / "d", ONE)
    assert [field.name for field in report.manifest.schema.fields] == ["image"]
    assert report.manifest.rows == 1
    assert report.ignored == {".txt files": 1, "hidden files or folders": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "counts"), [("parallel_folders", (1, 2, 3)), ("image_folder", (1, 3))]
)
def test_bytes_do_not_depend_on_workers(tmp_path, request, source, counts):
    """And progress reaches the total with any number of them."""
    folder = request.getfixturevalue(source)
    total = sum(path.stat().st_size for path in folder.rglob("*.*"))
    for workers in counts:
        options = Options(workers=workers, cut=Cut(rows=2))
        seen: list[tuple[int, int]] = []

        def note(progress, seen=seen) -> None:
            seen.append((progress.rows, progress.size_bytes))

        pack(folder, tmp_path / str(workers), options, note)
        assert seen == sorted(seen)
        assert seen[-1] == (6, total)
    one, *others = (contents(tmp_path / str(workers)) for workers in counts)
    assert len(one) == 4
    assert others == [one] * len(others)


def test_fingerprint_does_not_depend_on_the_cut_or_on_names(tmp_path, parallel_folders):
    first = pack(parallel_folders, tmp_path / "a", Options(workers=1, cut=Cut(rows=1)))
    again = pack(parallel_folders, tmp_path / "b", Options(workers=1, cut=Cut(data_bytes=9000)))
    for path in parallel_folders.rglob("*.*"):
        path.rename(path.with_stem("x" + path.stem))
    renamed = pack(parallel_folders, tmp_path / "c", ONE)
    files = [len(report.manifest.files) for report in (first, again, renamed)]
    assert files[0] == 6
    assert files[1] in range(2, 6)
    assert files[2] == 1
    assert len({report.manifest.fingerprint for report in (first, again, renamed)}) == 1
    next(parallel_folders.glob("masks/*")).write_bytes(b"")
    changed = pack(parallel_folders, tmp_path / "e", Options(workers=1, skip_bad=True))
    assert changed.manifest.fingerprint != first.manifest.fingerprint


def test_orientation_is_kept_apart_and_counted(tmp_path, photographs, to_jpeg):
    (tmp_path / "s").mkdir()
    pixels = photographs["coffee"]
    (tmp_path / "s" / "a.jpg").write_bytes(to_jpeg(pixels, 6))
    report = pack(tmp_path / "s", tmp_path / "d", ONE)
    assert report.manifest.statistics.fields["image"].turned == 1
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.size("image", 0) == (pixels.shape[1], pixels.shape[0])
        upright = dataset.decode("image", 0, np.empty(pixels.size, np.uint8))
        stored = np.asarray(Image.open(io.BytesIO(dataset.read("image", 0))))
        assert np.abs(upright.astype(int) - np.rot90(stored, -1)).max() <= 1


def test_partners_are_compared_upright(tmp_path, photographs, to_jpeg, to_png):
    """An image on its side fits the upright mask."""
    pixels = photographs["coffee"]
    for folder in ("images", "masks"):
        (tmp_path / "s" / folder).mkdir(parents=True)
    (tmp_path / "s" / "images" / "a.jpg").write_bytes(to_jpeg(pixels, 6))
    (tmp_path / "s" / "masks" / "a.png").write_bytes(to_png(np.rot90(pixels[:, :, 0], -1).copy()))
    assert pack(tmp_path / "s", tmp_path / "d", ONE).manifest.rows == 1


def test_what_was_re_encoded_is_reported(tmp_path, photographs):
    (tmp_path / "s").mkdir()
    for number in range(2):
        Image.fromarray(photographs["coffee"]).save(tmp_path / "s" / f"{number}.bmp")
    notes = pack(tmp_path / "s", tmp_path / "d", ONE).manifest.statistics.notes
    assert [(note.what, note.count, note.examples) for note in notes] == [
        ("image: BMP re-encoded as PNG without loss", 2, ("0.bmp", "1.bmp"))
    ]


@pytest.fixture
def spoilt(parallel_folders, photographs, to_png):
    """Parallel folders in which one thing of each sort is wrong."""
    images, masks = parallel_folders / "images", parallel_folders / "masks"
    data = (images / "astronaut.jpg").read_bytes()
    (images / "astronaut.jpg").write_bytes(data[: len(data) // 2])
    (images / "chelsea.jpg").write_text("not a picture")
    (images / "china.jpg").write_bytes(b"")
    (masks / "coffee.png").write_bytes(to_png(photographs["coffee"][1:, :, 0]))
    (masks / "flower.png").unlink()
    (images / "broken.jpg").symlink_to("nowhere")
    (masks / "broken.png").write_bytes(to_png(photographs["coffee"][:, :, 0]))
    (masks / "lonely.png").write_bytes(b"")
    return parallel_folders


REASONS = [
    r"images/flower\.jpg: its partner is missing: expected masks/flower\.\*",
    r"masks/lonely\.png: its partner is missing: expected images/lonely\.\*",
    r"images/astronaut\.jpg: it is damaged: .*remature end",
    r"images/broken\.jpg: it cannot be read: No such file",
    r"images/chelsea\.jpg: expected a JPEG, .* but it begins with 6e 6f 74",
    r"images/china\.jpg: it is empty",
    r"images/coffee\.jpg: it has \d+x\d+ pixels \(height x width, upright\), "
    r"but masks/coffee\.png has",
]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_all_bad_files_are_named_before_it_fails(tmp_path, spoilt, workers):
    with pytest.raises(DatasetError) as caught:
        pack(spoilt, tmp_path / "d", Options(workers=workers, cut=Cut(rows=2)))
    message = caught.value.message
    assert message.startswith(f"7 of 8 samples of {spoilt} cannot be packed:\n")
    assert "repair or remove them" in message
    assert "--skip-bad" in message
    for line, reason in zip(message.splitlines()[1:], REASONS, strict=False):
        assert re.fullmatch(rf"  {reason}.*", line), line
    with pytest.raises(DatasetError, match="was not packed to the end"):
        open_dataset(tmp_path / "d")


def test_bad_files_can_be_left_out(tmp_path, spoilt):
    report = pack(spoilt, tmp_path / "d", Options(workers=1, skip_bad=True, cut=Cut(rows=2)))
    assert report.manifest.rows == 1
    assert report.manifest.statistics.skipped == 7
    assert len(report.manifest.statistics.skipped_examples) == 7
    with open_dataset(tmp_path / "d") as dataset:
        assert dataset.source(0) == "images/rocket.jpg"


def test_what_was_kept_of_a_run_that_failed_is_counted_without_bad_files(tmp_path, spoilt):
    with pytest.raises(DatasetError, match="7 of 8 samples"):
        pack(spoilt, tmp_path / "d", ONE)
    report = pack(spoilt, tmp_path / "d", Options(workers=1, skip_bad=True))
    assert report.resumed_rows == report.manifest.rows == 1


def test_repaired_files_are_all_that_is_packed_again(tmp_path, parallel_folders):
    victim = parallel_folders / "images" / "astronaut.jpg"
    data = victim.read_bytes()
    victim.write_bytes(data[:-100])
    options = Options(workers=1, cut=Cut(rows=2))
    with pytest.raises(DatasetError, match="1 of 6 samples"):
        pack(parallel_folders, tmp_path / "d", options)
    victim.write_bytes(data)
    report = pack(parallel_folders, tmp_path / "d", options)
    assert report.resumed_rows == 4
    pack(parallel_folders, tmp_path / "clean", options)
    assert contents(tmp_path / "d") == contents(tmp_path / "clean")


def test_kept_work_that_was_tampered_with_is_redone(tmp_path, parallel_folders):
    victim = parallel_folders / "images" / "astronaut.jpg"
    data = victim.read_bytes()
    victim.write_bytes(data[:-100])
    options = Options(workers=1, cut=Cut(rows=2))
    with pytest.raises(DatasetError, match="1 of 6 samples"):
        pack(parallel_folders, tmp_path / "d", options)
    victim.write_bytes(data)
    file = next((tmp_path / "d").glob("00001-*"))
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    (tmp_path / "d" / ".packing" / "00002.json").write_text("{}")
    (tmp_path / "d" / ".packing" / "stale.partial").touch()
    assert pack(parallel_folders, tmp_path / "d", options).resumed_rows == 0
    pack(parallel_folders, tmp_path / "clean", options)
    assert contents(tmp_path / "d") == contents(tmp_path / "clean")


def test_overwriting_is_asked_for_and_atomic(tmp_path, parallel_folders):
    pack(parallel_folders, tmp_path / "d", ONE)
    before = contents(tmp_path / "d")
    with pytest.raises(
        UsageError, match=r"already holds a dataset; choose another place, or pass --ov"
    ):
        pack(parallel_folders, tmp_path / "d", ONE)
    (parallel_folders / "images" / "rocket.jpg").write_bytes(b"")
    with pytest.raises(DatasetError, match="1 of 6 samples"):
        pack(parallel_folders, tmp_path / "d", Options(workers=1, overwrite=True))
    with open_dataset(tmp_path / "d") as dataset:
        old = dataset.read("image", 0)
        assert len(dataset) == 6
        assert before.items() <= contents_of_files(tmp_path / "d").items()
        options = Options(workers=1, overwrite=True, skip_bad=True)
        assert pack(parallel_folders, tmp_path / "d", options).manifest.rows == 5
        assert old == dataset.read("image", 0)
    assert len(contents(tmp_path / "d")) == 2


def test_other_faults_of_the_disk(tmp_path, image_folder, monkeypatch):
    def fault(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("stoker.dataset.packing.build.write_manifest", fault)
    with pytest.raises(DatasetError, match=r"cannot write to .*: Input/output error; check"):
        pack(image_folder, tmp_path / "d", ONE)
    monkeypatch.undo()
    assert pack(image_folder, tmp_path / "d", ONE).resumed_rows == 6


def test_statistics(tmp_path, parallel_folders, photographs):
    statistics = pack(parallel_folders, tmp_path / "d", AS_THEY_CAME).manifest.statistics.fields
    heights = [pixels.shape[0] for pixels in photographs.values()]
    for name, folder in (("image", "images"), ("mask", "masks")):
        sizes = [path.stat().st_size for path in (parallel_folders / folder).iterdir()]
        assert statistics[name].data_bytes == sum(sizes)
        assert statistics[name].height == (min(heights), max(heights), sum(heights) / 6)
        assert statistics[name].turned == 0


def contents_of_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_one_packer_at_a_time(tmp_path, parallel_folders):
    def again(_progress) -> None:
        with pytest.raises(UsageError, match=r"another process is writing .*; wait for it"):
            pack(parallel_folders, tmp_path / "d", ONE)
        seen.append(True)

    seen: list[bool] = []
    pack(parallel_folders, tmp_path / "d", ONE, again)
    assert seen


def test_files_of_another_kind_are_counted(tmp_path, image_folder):
    np.save(image_folder / "mean.npy", np.zeros(3))
    report = pack(image_folder, tmp_path / "d", Options(workers=1, kind="folder"))
    assert report.ignored == {".npy files": 1}


def test_splits_are_no_classes(tmp_path, photographs, to_jpeg):
    for split in ("train", "val"):
        (tmp_path / "s" / split / "cat").mkdir(parents=True)
        (tmp_path / "s" / split / "cat" / "a.jpg").write_bytes(to_jpeg(photographs["rocket"]))
    with pytest.raises(UsageError, match=r"looks like splits \(train, val\), not like classes"):
        pack(tmp_path / "s", tmp_path / "d", ONE)
    assert (
        pack(tmp_path / "s", tmp_path / "d", Options(workers=1, kind="folder")).manifest.rows == 2
    )


def test_a_file_that_changes_while_it_is_packed(tmp_path, image_folder):
    last = max(image_folder.rglob("*.jpg"))

    def change(progress) -> None:
        if progress.rows == 1:
            last.write_bytes(last.read_bytes() + b"more")

    message = r"(animals|things)/.*.jpg: it changed while it was packed: it had"
    with pytest.raises(DatasetError, match=message):
        pack(image_folder, tmp_path / "d", ONE, change)


def save_parquet(path, pixels):
    rows = [{"values": row.reshape(-1).tolist()} for row in pixels]
    pq.write_table(pa.Table.from_pylist(rows), path)


def save_arrow(path, pixels):
    table = pa.Table.from_pylist([{"values": row.reshape(-1).tolist()} for row in pixels])
    with pa.ipc.new_file(path, table.schema) as file:
        file.write_table(table)


def save_tar(path, pixels):
    with tarfile.open(path, "w") as tar:
        for number, row in enumerate(pixels):
            info, out = tarfile.TarInfo(f"{number}.ppm"), io.BytesIO()
            Image.fromarray(row).save(out, "PPM")
            info.size = out.tell()
            tar.addfile(info, io.BytesIO(out.getvalue()))


CONTAINERS = {
    "x.npy": np.save,
    "stored.npz": lambda path, pixels: np.savez(path, x=pixels),
    "deflated.npz": lambda path, pixels: np.savez_compressed(path, x=pixels),
    "x.tar": save_tar,
    "rows/x.parquet": save_parquet,
    "rows/x.arrow": save_arrow,
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_file_of_many_samples_that_changes_while_it_is_packed(tmp_path, name):
    """Values read before the change are not mixed with values read after it."""
    path = tmp_path / "s" / name
    path.parent.mkdir(parents=True)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), np.uint8)
    CONTAINERS[name](path, pixels)
    time_ns = path.stat().st_mtime_ns

    def change(progress) -> None:
        if progress.rows == 2:
            with open(path, "r+b") as file:
                file.seek(path.stat().st_size // 2)
                file.write(b"7")
            os.utime(path, ns=(time_ns, time_ns + 10**9))

    options = {"kind": "huggingface"} if path.parent.name == "rows" else {}
    source = path.parent if options else path
    with pytest.raises(DatasetError, match=r"4 of 6 samples(.|\n)*it changed while it was packed"):
        pack(source, tmp_path / "d", Options(workers=1, **options), change)


def test_links_are_followed_but_not_in_a_circle(tmp_path, image_folder):
    (image_folder / "animals" / "loop").symlink_to(image_folder / "animals")
    (image_folder / "zoo").symlink_to(image_folder / "animals")
    report = pack(image_folder, tmp_path / "d", ONE)
    assert report.manifest.rows == 9
    assert report.manifest.schema.field("label").classes == ("animals", "things", "zoo")


def test_a_folder_that_cannot_be_read(tmp_path, image_folder, monkeypatch):
    scan = os.scandir

    def deny(path):
        if str(path).endswith("animals"):
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr("os.scandir", deny)
    with pytest.raises(UsageError, match=r"cannot read the folder .*animals: Permission denied"):
        pack(image_folder, tmp_path / "d", ONE)


def no_space(*_):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("error", "message", "spoil", "dest", "options"),
    [
        (UsageError, "expected at least 1 worker, got 0", None, "d", {"workers": 0}),
        (UsageError, r"cannot write to /proc/d: .*; choose another place", None, "/proc/d", {}),
        (UsageError, r"the name \\xff\\xfe is not UTF-8; rename it",
         lambda s, _: os.rename(s / "animals", os.fsencode(s) + b"/\xff\xfe"), "d", {}),
        (DatasetError, r"stray.jpg: it is not in a class folder, but others are",
         lambda s, _: (s / "stray.jpg").touch(), "d", {}),
        (DatasetError, "expected at least one sample to write to",
         lambda s, _: [path.write_bytes(b"") for path in s.rglob("*.*")], "d", {"skip_bad": True}),
        (UsageError, "would be inside its own source",
         lambda s, _: (s.parent / "link").symlink_to(s / "animals"), "link/d", {}),
        (UsageError, "would be inside its own source",
         lambda s, _: (s.parent / "x").mkdir(), "x/../SOURCE/d", {}),
        (ResourceError, "No space left on device; free some space",
         lambda _, patch: patch("stoker.dataset.packing.shard.os.fsync", no_space), "d", {}),
        # The other packer removes its work folder between our opening of the lock and our locking.
        (UsageError, r"another process is writing ",
         lambda s, patch: patch("stoker.dataset.packing.build.fcntl.flock",
                                lambda *_: (s.parent / "d/.packing/lock").unlink()), "d", {}),
    ],
)  # fmt: skip
def test_what_cannot_be_packed(image_folder, monkeypatch, error, message, spoil, dest, options):
    if spoil is not None:
        spoil(image_folder, monkeypatch.setattr)
    before = contents_of_files(image_folder)
    place = image_folder.parent / dest.replace("SOURCE", image_folder.name)
    with pytest.raises(error, match=message):
        pack(image_folder, place, Options(**{"workers": 1, **options}))
    assert contents_of_files(image_folder) == before
    assert not list(image_folder.rglob("d"))


def test_of_two_files_of_one_name_and_of_too_many_bad_ones(tmp_path, parallel_folders, spoilt):
    with pytest.raises(DatasetError, match=r"7 of 8 samples (.|\n)*\.\.\. and 5 more"):
        pack(spoilt, tmp_path / "d", Options(workers=1, max_bad=2))
    (parallel_folders / "masks" / "rocket.bmp").touch()
    with pytest.raises(DatasetError, match=r"masks/rocket.png: masks/rocket.bmp has the same name"):
        pack(parallel_folders, tmp_path / "e", ONE)
    (tmp_path / "link").symlink_to(parallel_folders)
    with pytest.raises(UsageError, match="would be inside its own source"):
        pack(tmp_path / "link", parallel_folders / "d", ONE)
