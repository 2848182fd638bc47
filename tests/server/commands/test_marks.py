"""Byte order marks: every text that a user names is read with one; other encodings are named."""

import codecs
import json

import pytest
from commands import call
from PIL import Image

from stoker.dataset import open_dataset
from stoker.protocol.weights import read_weights

MARK = codecs.BOM_UTF8
YAML = "train: images\nnames: [cat]\n"
COCO = {
    "images": [{"id": 0, "file_name": "images/a.png", "width": 20, "height": 10}],
    "annotations": [],
    "categories": [{"id": 1, "name": "cat"}],
}


@pytest.fixture
def sources(tmp_path):
    """Text files of all sorts, by name, and the arguments of `stoker pack` that read them."""
    (tmp_path / "images").mkdir()
    (tmp_path / "labels").mkdir()
    Image.new("RGB", (20, 10)).save(tmp_path / "images/a.png")
    texts = {
        "data.yaml": YAML,
        "labels/a.txt": "0 0.5 0.5 0.2 0.2\r\n",
        "coco.json": json.dumps(COCO),
        "table.csv": "image,label\r\nimages/a.png,cat\r\n",
        "classes.list": "cat\r\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_bytes(MARK + text.encode())
    commands = {
        "data.yaml": ["data.yaml"],
        "labels/a.txt": ["data.yaml"],
        "coco.json": ["coco.json"],
        "table.csv": ["table.csv"],
        "classes.list": ["table.csv", "--classes", tmp_path / "classes.list"],
    }
    return texts, {
        name: ["pack", tmp_path / first, tmp_path / "packed", "--workers=1", "--overwrite", *rest]
        for name, (first, *rest) in commands.items()
    }


def test_texts_to_pack_may_have_a_mark(tmp_path, sources):
    texts, commands = sources
    for name, command in commands.items():
        code, _, said = call(*command)
        assert code == 0, (name, said)
        with open_dataset(tmp_path / "packed") as dataset:
            assert dataset.schema.fields[1].classes == ("cat",), name
    for name, text in texts.items():
        for coding, what in (("utf-16", "UTF-16"), ("utf-32", "UTF-32")):
            (tmp_path / name).write_bytes(text.encode(coding))
            code, _, said = call(*commands[name])
            assert code != 0, (name, coding)
            assert name in said, said
            assert what in said, said
        (tmp_path / name).write_text(text)


def test_lists_of_ids_weights_and_the_configuration_may_have_a_mark(tmp_path, sources):
    assert call(*sources[1]["table.csv"])[0] == 0
    (tmp_path / "ids.txt").write_bytes(MARK + b"0\r\n")
    code, out, said = call("split", tmp_path / "packed", f"val={tmp_path / 'ids.txt'}")
    assert (code, out) == (0, "val: 1 sample of 1\n"), said
    (tmp_path / "weights.txt").write_bytes(MARK + b"0.5\r\n")
    assert read_weights(tmp_path / "weights.txt").tolist() == [0.5]
    settings = tmp_path / "stoker.toml"
    settings.write_bytes(MARK + f"[datasets]\nd = '{tmp_path}/packed'\n".encode())
    assert call("config", "--config", settings)[0] == 0
    settings.write_text("[daemon]\na = " + "[" * 100_000)
    code, _, said = call("config", "--config", settings)
    assert code != 0
    assert "stoker.toml: its values are nested too deeply" in said
