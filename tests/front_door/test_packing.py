"""Promises of guarantees.md about packing, by executed commands; one test packs, others look."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import skimage.data
from counting import wait_for
from daemons import serving
from PIL import Image
from pycocotools.coco import COCO

from stoker import ops
from stoker.client import Loader
from stoker.dataset import open_dataset, schema, write
from stoker.pipeline import pipeline
from stoker.protocol.errors import DatasetError, StokerError
from stoker.protocol.ragged import unpack_items

pytestmark = [pytest.mark.slow, pytest.mark.as_a_user]
STOKER = [sys.executable, "-m", "stoker.server"]
CAT = skimage.data.chelsea()
SCENES = 12


def run(*words: object, code: int = 0) -> str:
    """Execute `stoker`; return what it printed, or the error if it fails as it must."""
    command = [*STOKER, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stderr if code else done.stdout


def picture(number: int, **options: object) -> bytes:
    """A piece of a photograph, as a file."""
    out = io.BytesIO()
    pixels = CAT[10 * number : 10 * number + 90, 20 * number : 20 * number + 60 + number]
    Image.fromarray(pixels).save(out, "JPEG", **options)
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `photos` has images of two classes, and `table.csv` names them."""
    root = tmp_path_factory.mktemp("front-door")
    lines = ["image,label"]
    for number in range(SCENES):
        name = f"{('cat', 'dog')[number % 2]}/{number:02}.jpg"
        (root / "photos" / name).parent.mkdir(parents=True, exist_ok=True)
        (root / "photos" / name).write_bytes(picture(number))
    paths = sorted((root / "photos").rglob("*.jpg"))
    lines += [f"{path.relative_to(root)},{path.parent.name}" for path in paths]
    (root / "table.csv").write_text("\n".join(lines))
    return root


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    """The photographs, packed."""
    run("pack", folder / "photos", folder / "packed", "--workers=1")
    return folder / "packed"


@pytest.fixture
def copy(packed: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(packed, tmp_path / "copy")
    return tmp_path / "copy"


def fingerprint(path: Path) -> str:
    with open_dataset(path) as dataset:
        return dataset.fingerprint


def contents(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.iterdir()}


def write_tar(path: Path, numbers: range) -> None:
    with tarfile.open(path, "w") as file:
        for number in numbers:
            for suffix, data in (("jpg", picture(number % SCENES)), ("cls", b"%d" % (number % 2))):
                member = tarfile.TarInfo(f"{number:03}.{suffix}")
                member.size = len(data)
                file.addfile(member, io.BytesIO(data))


def test_one_fingerprint_from_a_folder_or_a_table_and_one_content_from_any_workers(
    folder, packed, tmp_path
):
    run("pack", folder / "table.csv", tmp_path / "table", "--workers=1", "--field=label=label")
    assert fingerprint(tmp_path / "table") == fingerprint(packed)
    run("pack", folder / "photos", tmp_path / "three", "--workers=3")
    assert contents(tmp_path / "three") == contents(packed)


def test_a_kill_changes_no_byte(folder, packed, tmp_path):
    dest = tmp_path / "d"
    command = [*STOKER, "pack", str(folder / "photos"), str(dest), "--workers=1"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as packer:
        wait_for((dest / ".packing").exists)
        packer.kill()
    with pytest.raises(DatasetError, match="was not packed to the end"):
        open_dataset(dest)
    run("pack", folder / "photos", dest, "--workers=1")
    assert contents(dest) == contents(packed)


def test_appending_gives_the_fingerprint_of_all_at_once(tmp_path):
    for name, numbers in {"a": range(5), "b": range(5, 9)}.items():
        (tmp_path / "all").mkdir(exist_ok=True)
        write_tar(tmp_path / "all" / f"{name}.tar", numbers)
    run("pack", tmp_path / "all", tmp_path / "once", "--workers=1")
    run("pack", tmp_path / "all" / "a.tar", tmp_path / "parts", "--workers=1")
    run("pack", tmp_path / "all" / "b.tar", tmp_path / "parts", "--workers=1", "--append")
    assert fingerprint(tmp_path / "parts") == fingerprint(tmp_path / "once")


def test_images_are_upright_or_as_stored(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    (tmp_path / "photos" / "cat").mkdir(parents=True)
    (tmp_path / "photos" / "cat" / "0.jpg").write_bytes(picture(0, exif=exif))
    for flags, size in (([], (60, 90)), (["--orientation=keep"], (90, 60))):
        run("pack", tmp_path / "photos", tmp_path / f"d{len(flags)}", "--workers=1", *flags)
        with open_dataset(tmp_path / f"d{len(flags)}") as dataset:
            assert dataset.size("image", 0) == size


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with two polygons that overlap, and their boxes."""
    root = tmp_path_factory.mktemp("coco")
    (root / "0.jpg").write_bytes(picture(0))
    shapes = [[5, 5, 40.5, 8, 30, 60.2, 10, 50], [20, 30, 55, 33, 50, 80]]
    objects = []
    for number, shape in enumerate(shapes):
        at = np.reshape(shape, (-1, 2))
        low, high = at.min(0), at.max(0)
        objects.append(
            {"id": number, "image_id": 1, "category_id": 3 + number, "segmentation": [shape],
             "iscrowd": 0, "area": float((high - low).prod()),
             "bbox": [*low.tolist(), *(high - low).tolist()]}
        )  # fmt: skip
    described = {
        "images": [{"id": 1, "file_name": "0.jpg", "height": 90, "width": 60}],
        "annotations": objects,
        "categories": [{"id": 3, "name": "cat"}, {"id": 4, "name": "ear"}],
    }
    (root / "coco.json").write_text(json.dumps(described))
    return root / "coco.json"


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools
@pytest.mark.parametrize("resize", [0, 45])
def test_masks_of_coco_are_those_of_pycocotools_and_all_is_resized_together(coco, tmp_path, resize):
    flags = [f"--resize={resize}"] if resize else []
    run("pack", coco, tmp_path / "d", "--workers=1", "--masks=semantic", *flags)
    index = COCO(coco)
    expected = np.zeros((90, 60), np.uint8)
    for one in sorted(index.loadAnns(index.getAnnIds()), key=lambda one: -one["area"]):
        expected[index.annToMask(one) == 1] = one["category_id"] - 2
    boxes = np.array([one["bbox"] for one in index.loadAnns(index.getAnnIds())])
    boxes[:, 2:] += boxes[:, :2]
    with open_dataset(tmp_path / "d") as dataset:
        height, width = dataset.size("image", 0)
        mask = dataset.decode("mask", 0, np.empty(10**5, np.uint8)).reshape(height, width)
        found = dataset.read("boxes", 0)
        boxes_field = dataset.schema.field("boxes").items.fields
    got = unpack_items(boxes_field, found)["xyxy"]
    assert np.allclose(got, boxes * np.array([width / 60, height / 90] * 2), atol=0.01)
    rows = ((np.arange(height) + 0.5) * 90 / height).astype(int)
    columns = ((np.arange(width) + 0.5) * 60 / width).astype(int)
    alike = (mask == expected[rows][:, columns]).mean()
    assert alike > 0.97 if resize else alike == 1


def test_folders_of_numbered_images_are_packed_after_a_choice_alone(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "s" / name).mkdir(parents=True)
        for number in range(3, 7):
            (tmp_path / "s" / name / f"frame_{number}.jpg").write_bytes(picture(0))
    error = run("pack", tmp_path / "s", tmp_path / "d", "--workers=1", code=2)
    assert "--kind clips" in error
    assert "--kind folder" in error
    run("pack", tmp_path / "s", tmp_path / "clips", "--workers=1", "--kind=clips")


def test_a_damaged_source_is_refused_by_name(folder, tmp_path):
    shutil.copytree(folder / "photos", tmp_path / "photos")
    (tmp_path / "photos" / "cat" / "00.jpg").write_bytes(picture(0)[:500])
    error = run("pack", tmp_path / "photos", tmp_path / "d", "--workers=1", code=1)
    assert "cat/00.jpg" in error
    write_tar(tmp_path / "a.tar", range(9))
    os.truncate(tmp_path / "a.tar", 9000)
    assert "a.tar" in run("pack", tmp_path / "a.tar", tmp_path / "e", "--workers=1", code=1)


def test_an_index_takes_200_bytes_a_sample(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    write_tar(tmp_path / "a.tar", range(1500))
    run("index", tmp_path / "a.tar", "--workers=1")
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert 0 < sum(path.stat().st_size for path in files) <= 200 * 1500


def peak_kb(*words: object) -> int:
    """Execute `stoker`; return the most memory that it had."""
    with subprocess.Popen([*STOKER, *map(str, words)], stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss


def test_many_images_are_planned_in_little_memory(tmp_path):
    """Besides what the command needs for a hundred; pages of the dataset count as well."""
    shapes = [np.zeros((h, w, 3), np.uint8) for h in range(1, 6) for w in range(1, 6)]
    peaks = []
    for rows in (100, 20_000):
        images = ({"image": shapes[number % 25]} for number in range(rows))
        write(tmp_path / str(rows), [schema.image(encoding="raw")], images)
        flags = ["--max-area=16", "--divisor=1", "--batch-size=8"]
        peaks.append(peak_kb("buckets", tmp_path / str(rows), *flags))
    assert peaks[1] - peaks[0] < 8_000


def damage_manifest(copy: Path) -> None:
    manifest = json.loads((copy / "manifest.json").read_text())
    (copy / "manifest.json").write_text(json.dumps(manifest | {"rows": manifest["rows"] - 1}))


def remove(copy: Path) -> None:
    next(path for path in copy.iterdir() if path.name != "manifest.json").unlink()


def cut(copy: Path) -> None:
    largest = max(copy.iterdir(), key=lambda path: path.stat().st_size)
    os.truncate(largest, largest.stat().st_size - 1)


@pipeline
def pictures(sample):
    return {"image": ops.resize(sample.image, size=(16, 16))}


def test_a_byte_that_changed_is_found_by_verify(copy):
    """The quantization table of one JPEG, which still decodes."""
    with open_dataset(copy) as dataset:
        data = bytes(dataset.read("image", 2))
    (file,) = (path for path in copy.iterdir() if data in path.read_bytes())
    with open(file, "r+b") as opened:
        opened.seek(file.read_bytes().index(data) + data.index(b"\xff\xdb") + 10)
        opened.write(bytes([data[data.index(b"\xff\xdb") + 10] ^ 1]))
    done = subprocess.run(
        [*STOKER, "verify", copy, "--workers=1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "checksums" in done.stdout + done.stderr


def change_numbers(copy: Path) -> None:
    """Bytes of the columns of numbers: offsets and sizes."""
    draw = np.random.default_rng(6)
    (file,) = copy.glob("00000*")
    data = np.frombuffer(file.read_bytes(), np.uint8).copy()
    data[1000:2200] ^= (draw.random(1200) < 0.05).astype(np.uint8) * 255
    file.write_bytes(data.tobytes())


@pytest.fixture(scope="module")
def damaged(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a daemon whose datasets were damaged since, each by the function so named."""
    folder, flags = tmp_path_factory.mktemp("damaged"), ["--workers=1"]
    damages = damage_manifest, remove, cut, change_numbers
    for damage in damages:
        shutil.copytree(packed, folder / damage.__name__)
        flags.append(f"--dataset={damage.__name__}={folder / damage.__name__}")
    with serving(folder, *flags) as daemon:
        for damage in damages:
            damage(folder / damage.__name__)
        yield daemon.address


def load(address: str, dataset: str, **more: object) -> Loader:
    options = {"pipeline": pictures, "batch_size": 4, "device": "numpy", **more}
    return Loader(address, dataset=dataset, **options)


DAMAGES = [
    (damage_manifest, "checksum .*; pack the dataset again, or restore it from a copy"),
    (remove, "cannot read its file .*; restore it, or pack the dataset again"),
    (cut, "bytes, but the manifest says .*: restore it, or pack the dataset again"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_damaged_dataset_is_not_opened(damaged, damage, message):
    with pytest.raises(DatasetError, match=message):
        load(damaged, damage.__name__)


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_a_damaged_dataset_is_not_served(copy, tmp_path, damage, message):
    """Nor is another one next to it; what is in the rows is left to `stoker verify`."""
    damage(copy)
    said = run("serve", f"--address=ipc://{tmp_path}/s", f"--dataset=cats={copy}", code=1)
    assert re.search(rf"--dataset: dataset 'cats': .*{message}", said)
    with pytest.raises(DatasetError, match=message):
        Loader(copy, pipeline=pictures, batch_size=4, device="numpy")


def test_offsets_and_sizes_that_changed_are_typed_errors(damaged):
    with load(damaged, "change_numbers", on_error="mask") as loader:
        assert not all(batch.valid.all() for batch in loader)
    with load(damaged, "change_numbers") as loader, pytest.raises(StokerError):
        list(loader)
