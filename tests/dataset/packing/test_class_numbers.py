"""Class numbers of datasets that are packed one by one, and formats that packing rejects."""

import pytest
import skimage.data
from PIL import Image
from typer import Typer
from typer.testing import CliRunner

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.protocol.errors import DatasetError, UsageError
from stoker.server.commands.dataset_commands import pack as pack_command

ONE = Options(workers=1)
PIXELS = Image.fromarray(skimage.data.astronaut()[:32, :40])


@pytest.fixture
def splits(tmp_path):
    """train/ has three classes, val/ lacks the first one."""
    for name in ("train/cat", "train/dog", "train/fox", "val/dog", "val/fox"):
        (tmp_path / name).mkdir(parents=True)
        PIXELS.save(tmp_path / name / "1.jpg")
    return tmp_path


def run(*arguments, status=0):
    app = Typer()
    app.command()(pack_command)
    result = CliRunner().invoke(app, [*map(str, arguments), "--workers", "1"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return " ".join(result.output.split())


def test_a_set_takes_over_the_numbers_of_another(splits, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    run(splits / "train", splits / "packed-train")
    out = run(splits / "val", splits / "packed-val")
    train = splits / "packed-train"
    assert f"warning: {train} numbers the classes of 'label' differently: 'dog' is 0 here" in out
    assert "and 1 there; if the two belong together, pack again with --overwrite --class" in out
    out = run(splits / "val", splits / "packed-val", "--overwrite", "--classes-of", train)
    assert "warning" not in out
    with open_dataset(splits / "packed-val") as dataset:
        assert dataset.schema.field("label").classes == ("cat", "dog", "fox")
        assert [int(dataset.read("label", row)) for row in range(2)] == [1, 2]


def test_other_datasets_in_the_same_folder_do_not_matter(splits):
    assert pack(splits / "val", splits / "a", ONE).warnings == ()
    (splits / "broken").mkdir()
    (splits / "broken/manifest.json").write_text("{")
    (splits / "birds/crow").mkdir(parents=True)
    PIXELS.save(splits / "birds/crow/1.jpg")
    assert pack(splits / "birds", splits / "b", ONE).warnings == ()


def test_numbers_that_cannot_be_taken_over(splits):
    PIXELS.save(splits / "alone.png")
    flat = splits / "flat"
    flat.mkdir()
    PIXELS.save(flat / "1.png")
    pack(flat, splits / "none", ONE)
    with pytest.raises(UsageError, match="expected a dataset with one label that has classes"):
        run(splits / "val", splits / "d", "--classes-of", splits / "none")
    with pytest.raises(DatasetError, match="has no manifest"):
        run(splits / "val", splits / "d", "--classes-of", splits / "train")
    pack(splits / "val", splits / "small", ONE)
    with pytest.raises(UsageError, match="missing in the list of 2: cat"):
        run(splits / "train", splits / "d", "--classes-of", splits / "small")
    (splits / "c.txt").write_text("cat")
    with pytest.raises(UsageError, match="--classes and --classes-of exclude each other"):
        run(
            splits / "val",
            splits / "d",
            "--classes-of",
            splits / "a",
            "--classes",
            splits / "c.txt",
        )


@pytest.mark.parametrize(
    ("suffix", "name"), [("avif", "AVIF"), ("jp2", "JPEG 2000"), ("j2k", "JPEG 2000")]
)
def test_formats_that_are_not_read_are_bad_and_never_left_out(splits, suffix, name):
    try:
        PIXELS.save(splits / f"train/dog/2.{suffix}")
    except (KeyError, OSError):
        pytest.skip(f"this Pillow does not write {suffix}")
    with pytest.raises(DatasetError, match=rf"dog/2\.{suffix}: .* it is {name}; convert it to PNG"):
        pack(splits / "train", splits / "d", ONE)
    out = run(splits / "train", splits / "d", "--skip-bad")
    assert "packed 3 samples" in out
    assert "left out as bad: 1 samples" in out
