"""Numbers of classes by a list: the same for parts that are packed one by one."""

import pytest

from stoker.dataset import open_dataset
from stoker.dataset.packing.pack import Options, pack
from stoker.dataset.sources.common.class_order import read_classes
from stoker.protocol.errors import UsageError

CLASSES = ("plants", "things", "animals")


def labels(folder):
    with open_dataset(folder) as dataset:
        field = dataset.schema.field("label")
        assert field.classes == CLASSES
        return [field.classes[int(dataset.read("label", row))] for row in range(len(dataset))]


def test_each_source_takes_the_numbers_of_the_list(tmp_path, image_folder):
    options = Options(workers=1, classes=CLASSES)
    files = sorted(image_folder.rglob("*.*"), key=lambda path: path.relative_to(image_folder).parts)
    names = [path.relative_to(image_folder) for path in files]
    expected = [name.parts[0] for name in names]
    folder = pack(image_folder, tmp_path / "a", options)
    assert labels(tmp_path / "a") == expected
    assert folder.manifest.statistics.fields["label"].per_class == (0, 3, 3)
    lines = ["image,label", *(f"{name},{name.parts[0]}" for name in names)]
    (image_folder / "all.csv").write_text("\n".join(lines))
    table = pack(image_folder / "all.csv", tmp_path / "b", options)
    assert table.manifest.fingerprint == folder.manifest.fingerprint
    (tmp_path / "pairs").mkdir()
    image_folder.rename(tmp_path / "pairs" / "images")
    pack(tmp_path / "pairs", tmp_path / "c", options)
    assert sorted(labels(tmp_path / "c")) == sorted(expected)


def test_lists_are_read_from_files(tmp_path):
    path = tmp_path / "classes.txt"
    path.write_text("plants\n  red things \n\n", encoding="utf-8-sig")
    assert read_classes(path) == ("plants", "red things")
    for content, message in (
        (b"a\nb\na\n", "classes.txt has 'a' twice; expected one class per line"),
        (b"\n", "classes.txt has no class, or far too many; expected one class per line"),
        (b"\xff\n", "classes.txt: expected text in UTF-8, got the byte 0xff in line 1"),
    ):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=message):
            read_classes(path)
    with pytest.raises(UsageError, match=r"--classes: cannot read .*none.txt: No such file"):
        read_classes(tmp_path / "none.txt")
