"""`stoker replay` shows every step of a sample; its bytes are those of the stream."""

import hashlib
import itertools
import json

import numpy as np
import pytest
from damage import accept_damage
from PIL import Image

from stoker.dataset import open_dataset, schema, write
from stoker.protocol.errors import UsageError
from stoker.rng.row import Row
from stoker.server.commands.replay_command import replay
from stoker.server.inspect.contact_sheet import augmented
from stoker.server.inspect.value_files import palette
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.rows.subject import load_pipeline, open_subject

PIPELINE = "command_pipelines:train"


@pytest.fixture
def delivered(photos, run, monkeypatch):
    """(id, epoch) -> the outputs that the stream holds for it, by the reference of the law."""
    monkeypatch.syspath_prepend(".")
    graph = load_pipeline(PIPELINE)
    spec = make_spec(photos, graph, batch_size=1, seed=5, freeze={"horizontal_flip": "epoch"})

    def of(number, epoch):
        for _, batch in reference_batches(photos, graph, spec, epoch=epoch):
            if batch["index"][0] == number:
                return {name: batch[name][0] for name in ("image", "mask", "label")}
        raise AssertionError(f"no row of id {number}")

    return of


def test_json_has_every_step_and_the_hashes_of_the_delivered_bytes(photos, run, delivered):
    for number in (0, 3):
        out = run(
            replay, PIPELINE, photos, "--id", number, "--epoch", 2, "--seed", 5, "--json",
            "--freeze", "horizontal_flip=epoch",
        )  # fmt: skip
        data = json.loads(out)
        assert (data["id"], data["epoch"], data["seed"], data["view"]) == (number, 2, 5, 0)
        assert [step["op"] for step in data["steps"]] == [
            "random_resized_crop", "horizontal_flip", "brightness", "invert", "normalize",
        ]  # fmt: skip
        made = [step["made"] for step in data["steps"]]
        assert made in ([True, True, True, False, True], [True, True, False, True, True])
        expected = delivered(number, 2)
        assert {output["name"]: output["blake2b"] for output in data["outputs"]} == {
            name: hashlib.blake2b(array.tobytes(), digest_size=16).hexdigest()
            for name, array in expected.items()
        }


def test_damage_outside_of_what_the_row_reads_is_told_and_shown_black(run, tmp_path):
    """A center crop of 32 pixels reads none of the picture's last lines."""
    pixels = np.random.default_rng(0).integers(1, 256, (200, 300, 3), np.uint8)
    write(tmp_path / "d", [schema.image(encoding="bands")], [{"image": pixels}])
    command = (replay, "command_pipelines:called", tmp_path / "d", "--id", 0, "--epoch", 0)
    whole = json.loads(run(*command, "--json"))
    with open_dataset(tmp_path / "d") as dataset:
        file, offset = dataset.locate("image", 0)
        end = offset + len(dataset.read("image", 0))
    with (tmp_path / "d" / file.name).open("r+b") as data:
        data.seek(end - 4)
        data.write(b"xxxx")
    accept_damage(tmp_path / "d")
    found = json.loads(run(*command, "--json", "--out", tmp_path / "o"))
    reason = "cannot decode it: the checksum of a band differs: it is damaged"
    assert found["fields"][0]["damage"] == reason
    assert "damage" not in whole["fields"][0]
    assert (found["outputs"], found["steps"]) == (whole["outputs"], whole["steps"])
    with Image.open(tmp_path / "o" / "000-field-image.png") as shown:
        black = np.asarray(shown).copy()
    assert np.array_equal(black[84:116, 134:166], pixels[84:116, 134:166])
    black[84:116, 134:166] = 0
    assert not black.any()
    printed = " ".join(run(*command).split())
    assert f"image is damaged, and black, where this row reads nothing: {reason}" in printed


def test_out_has_every_value_as_a_file(photos, run, tmp_path, delivered):
    flags = ("--seed", 5, "--freeze", "horizontal_flip=epoch", "--out", tmp_path / "o")
    run(replay, PIPELINE, photos, "--id", 1, "--epoch", 0, *flags)
    data = json.loads((tmp_path / "o" / "replay.json").read_text())
    names = sorted(path.name for path in (tmp_path / "o").iterdir())
    branch = "003-brightness" if data["steps"][2]["made"] else "004-invert"
    assert names == [
        "000-field-image.png", "000-field-label.npy", "000-field-mask.png",
        "001-random_resized_crop-image.png", "001-random_resized_crop-mask.png",
        "002-horizontal_flip-image.png", "002-horizontal_flip-mask.png",
        f"{branch}-image.png", "005-normalize-image.npy",
        "006-output-image.npy", "006-output-label.npy", "006-output-mask.png", "replay.json",
    ]  # fmt: skip
    expected = delivered(1, 0)
    assert np.array_equal(np.load(tmp_path / "o" / "006-output-image.npy"), expected["image"])
    with Image.open(tmp_path / "o" / "006-output-mask.png") as mask:
        assert mask.mode == "P"
        assert np.array_equal(np.asarray(mask), expected["mask"])
    with open_dataset(photos) as dataset, Image.open(tmp_path / "o" / names[0]) as image:
        buffer = np.empty(np.asarray(image).size, np.uint8)
        assert np.array_equal(np.asarray(image), dataset.decode("image", 1, buffer))


def test_text_names_what_was_decided(photos, run):
    out = run(replay, PIPELINE, photos, "--id", 2, "--epoch", 0)
    assert out.startswith("sample 2 (images/")
    assert "  1 random_resized_crop\n    stream random_resized_crop: top " in out
    assert " px, left " in out
    assert "not applied: its branch was not taken: the condition at " in out
    assert "command_pipelines.py:13 was " in out
    assert "    image: array float16 (3, 48, 64), BLAKE2b " in out


def test_parameters_without_pixels_are_those_of_the_replay(photos, run):
    flags = (PIPELINE, photos, "--id", 4, "--epoch", 1, "--view", 1)
    decided = json.loads(run(replay, *flags, "--params-only", "--json"))
    steps = json.loads(run(replay, *flags, "--json"))["steps"]
    assert [(entry["op"], entry["record"]) for entry in decided] == [
        (step["op"], step["parameters"]) for step in steps if step["made"]
    ]
    text = run(replay, *flags, "--params-only")
    assert "  2 horizontal_flip\n    stream horizontal_flip: flip " in text


def test_a_schedule_is_told_where_the_row_lies(photos, run):
    flags = ("command_pipelines:scheduled", photos, "--id", 0, "--epoch", 1, "--json")
    found = json.loads(run(replay, *flags, "--step", 3, "--progress", 0.5))
    assert 1.0 <= found["steps"][0]["parameters"]["factor"] <= 1.5
    assert found["steps"][0]["settings"] == {"factor_range": [1.0, 1.5], "p": 1.0}
    early = json.loads(run(replay, *flags, "--step", 3, "--progress", 0))
    assert early["steps"][0]["parameters"]["factor"] == 1.0
    with pytest.raises(UsageError, match=r"reads ctx\.progress, so the length of the training"):
        run(replay, *flags, "--step", 3)


def test_boxes_and_keypoints_come_in_parts_as_in_a_batch(boxed, monkeypatch, run):
    monkeypatch.syspath_prepend(".")
    graph = load_pipeline("command_pipelines:boxed")
    spec = make_spec(boxed, graph, batch_size=1)
    with open_subject("command_pipelines:boxed", boxed) as subject:
        kept = set()
        for epoch in range(4):
            for _, batch in reference_batches(boxed, graph, spec, epoch=epoch):
                found = subject.replay(Row(0, int(batch["index"][0]), epoch))
                assert found.output("image").tobytes() == batch["image"][0].tobytes()
                for name in ("boxes", "keypoints"):
                    for key, array in batch[name][0].items():
                        assert np.array_equal(found.output(f"{name}.{key}"), array)
                crop, flip, _, converted = found.steps
                names = [value.name for value in crop.values]
                assert names == ["image", "boxes.xyxy", "boxes.label", "keypoints.xy"]
                assert [value.name for value in converted.values] == ["boxes.cxcywh", "boxes.label"]
                shown = augmented(found, "image", {})
                assert np.array_equal(shown.boxes, flip.values[1].array)
                assert np.array_equal(shown.points, found.output("keypoints.xy"))
                kept.add(len(found.output("boxes.label")))
        assert kept >= {0, 2, 3}


def test_the_number_of_boxes_is_known_without_pixels(boxed, run):
    flags = ("command_pipelines:boxed", boxed, "--epoch", 0, "--params-only", "--json")
    made = [json.loads(run(replay, *flags, "--id", number)) for number in range(3)]
    assert ["invert" in {entry["op"] for entry in one} for one in made] == [False, False, True]


def test_decisions_from_boxes_are_known_without_pixels(boxed, run):
    flags = ("command_pipelines:around_objects", boxed, "--json")
    seen = set()
    for number, epoch in itertools.product(range(3), range(6)):
        row = (*flags, "--id", number, "--epoch", epoch)
        whole = json.loads(run(replay, *row))["steps"]
        alone = json.loads(run(replay, *row, "--params-only"))
        made = {step["op"]: step["parameters"] for step in whole if step["made"]}
        assert {entry["op"]: entry["record"] for entry in alone} == made
        seen.add((made["iou_crop"]["applied"], "horizontal_flip" in made))
    assert len(seen) == 4


def test_the_palette_is_that_of_pascal_voc():
    assert palette()[:6].tolist() == [
        [0, 0, 0], [128, 0, 0], [0, 128, 0], [128, 128, 0], [0, 0, 128], [128, 0, 128],
    ]  # fmt: skip
    assert palette()[8].tolist() == [64, 0, 0]
    assert len(np.unique(palette(), axis=0)) == 256
