"""Replay, preview and explain of pipelines with batch ops: the row as its batch shows it."""

import hashlib
import json

import numpy as np
import pytest
from PIL import Image

from stoker.protocol.spec import OrderSpec
from stoker.rng.row import Row
from stoker.server.commands.explain_command import explain
from stoker.server.commands.preview_command import preview
from stoker.server.commands.replay_command import replay
from stoker.server.inspect.contact_sheet import augmented
from stoker.server.rows.reference import make_spec, reference_batches
from stoker.server.rows.subject import load_pipeline, open_subject


@pytest.fixture(autouse=True)
def beside(monkeypatch):
    monkeypatch.syspath_prepend(str(__file__).rpartition("/")[0])


def batches(path, name, epoch=0, **fields):
    graph = load_pipeline(f"command_pipelines:{name}")
    spec = make_spec(path, graph, seed=5, tail="pad", **fields)
    given = {"epoch": epoch, "params": True, "exclude": fields.get("exclude", ())}
    return [batch for _, batch in reference_batches(path, graph, spec, **given)]


@pytest.mark.parametrize(
    ("flags", "fields"),
    [
        ([], {"batch_size": 8}),
        (["--batch-size", 4, "--views", 2, "--view", 1], {"batch_size": 4, "views": 2}),
        (
            ["--batch-size", 5, "--no-shuffle"],
            {"batch_size": 5, "order": OrderSpec(shuffle=False)},
        ),
        (["--exclude"], {"batch_size": 8, "exclude": [1, 4]}),
    ],
)
def test_json_has_the_hashes_of_the_delivered_bytes(photos, run, flags, fields, tmp_path):
    if "exclude" in fields:
        (tmp_path / "list").write_text("4\n1\n")
        flags = ["--exclude", tmp_path / "list"]
    view = fields.get("views", 1) - 1
    for batch in batches(photos, "mixed", epoch=1, **fields):
        for row, number in enumerate(batch["index"].tolist()):
            if number not in (0, 3) or row % fields.get("views", 1) != view:
                continue
            out = run(
                replay, "command_pipelines:mixed", photos, "--id", number, "--epoch", 1, "--seed",
                5, "--json", *flags,
            )  # fmt: skip
            data = json.loads(out)
            assert {output["name"]: output["blake2b"] for output in data["outputs"]} == {
                name: hashlib.blake2b(batch[name][row].tobytes(), digest_size=16).hexdigest()
                for name in ("image", "mask", "label")
            }
            assert {step["op"] for step in data["steps"]} >= {"cutmix", "mixup"}


def test_steps_show_partner_weight_and_what_was_made(photos):
    """Every value of a batch op's step is of the step before it, by the record."""
    with open_subject("command_pipelines:mixed", photos) as subject:
        order = subject.stream(5)
        found = [subject.replay(Row(5, number, 2), spec=order) for number in range(6)]
    seen = set()
    for one in found:
        by_op = {step.op: step for step in one.steps}
        cut, mix, crop = by_op["cutmix"], by_op["mixup"], by_op["random_resized_crop"]
        seen.add((cut.applied, mix.applied))
        values = {value.name: value.array for value in cut.values}
        own = {value.name: value.array for value in crop.values}
        if cut.applied:
            other = found[cut.parameters["partner"]]
            box = tuple(
                slice(cut.parameters[at], cut.parameters[at] + cut.parameters[side])
                for at, side in (("top", "height"), ("left", "width"))
            )
            crop_of_other = next(s for s in other.steps if s.op == "random_resized_crop")
            theirs = {value.name: value.array for value in crop_of_other.values}
            expected = {name: array.copy() for name, array in own.items()}
            for name, array in expected.items():
                array[box] = theirs[name][box]
            assert np.array_equal(values["mask"], expected["mask"])
            assert np.array_equal(values["image"], expected["image"])
        else:
            assert np.array_equal(values["image"], own["image"])
            assert cut.why == "its probability was not hit"
        if mix.applied:
            other = found[mix.parameters["partner"]]
            part = mix.parameters["lam"]
            before = next(s for s in other.steps if s.op == "cutmix").values
            theirs = next(value.array for value in before if value.name == "image")
            mean = values["image"] * part + theirs * (1 - part)
            assert np.abs(one.output("image") - mean).max() <= 0.502
            assert one.output("label").sum() == pytest.approx(1, abs=1e-6)
        last = next(value for value in one.outputs if value.name == "image")
        chain = {value.number: value for value in one.values()}
        assert chain[last.of].array.tobytes() == last.array.tobytes()
        assert chain[chain[last.of].of].array.tobytes() == values["image"].tobytes()
    assert len(seen) > 1


def test_boxes_of_a_mosaic_are_replayed(boxed):
    expected = batches(boxed, "mosaics", batch_size=8)[0]
    with open_subject("command_pipelines:mosaics", boxed) as subject:
        spec = subject.stream(5)
        for row in range(3):
            number = int(expected["index"][row])
            found = subject.replay(Row(5, number, 0), spec=spec)
            boxes = expected["boxes"][row]
            assert found.output("image").tobytes() == expected["image"][row].tobytes()
            assert found.output("boxes.xyxy").tobytes() == boxes["xyxy"].tobytes()
            assert found.output("boxes.label").tolist() == boxes["label"].tolist()
            step = next(step for step in found.steps if step.op == "mosaic")
            assert {value.name for value in step.values} >= {"image", "boxes.xyxy", "boxes.label"}
            assert all(0 <= tile < 3 for tile in step.parameters["tiles"])


def test_a_preview_shows_mixed_pictures(photos, run, tmp_path):
    """Also those that are mixed after they were normalized: never the picture before."""
    for name in ("mixed", "mixed_floats"):
        run(
            preview, f"command_pipelines:{name}", photos, "--out", tmp_path / f"{name}.png",
            "--ids", "1,2", "--columns", 2,
        )  # fmt: skip
        with Image.open(tmp_path / f"{name}.png") as page:
            assert page.width > 500
    with open_subject("command_pipelines:mixed_floats", photos) as subject:
        one = subject.replay(Row(0, 1, 0))
        shown = augmented(one, "image", {}).pixels
        resized = next(step for step in one.steps if step.op == "resize").values[0].array
        mixed = np.moveaxis(one.output("image"), 0, -1)
        stretched = (mixed - mixed.min()) * (255 / (mixed.max() - mixed.min()))
        assert np.abs(shown - stretched).max() <= 0.51
        assert np.abs(shown.astype(int) - resized).mean() > 10


def test_explain_says_what_is_mixed_with_what(photos, boxed, run):
    out = run(explain, "command_pipelines:mixed", photos)
    assert "batch ops, on finished rows:" in out
    assert "of image, mask, label: with a row of its group" in out
    assert "of image, label: with a row of its group" in out
    assert "with 3 samples of the dataset" in run(explain, "command_pipelines:mosaics", boxed)
    assert "batch ops" not in run(explain, "command_pipelines:train", photos)
