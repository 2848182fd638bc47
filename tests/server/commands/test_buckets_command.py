"""`stoker buckets`: what it says adds up, and is what the Loader's plan has."""

import json

import numpy as np
import pytest
from PIL import Image

from stoker.client import Buckets
from stoker.dataset import open_dataset, schema, write
from stoker.order.buckets.sizes import bucket_size
from stoker.protocol.errors import UsageError
from stoker.protocol.request.stream_arguments import stream_request
from stoker.server.commands.buckets_command import buckets
from stoker.server.commands.explain_command import explain
from stoker.server.commands.preview_command import preview
from stoker.server.commands.replay_command import replay
from stoker.server.inspect.bucket_plot import plot
from stoker.server.inspect.bucket_report import make_report
from stoker.server.rows.orders import plan_buckets

SIZES = [(40, 40)] * 9 + [(80, 40)] * 6 + [(40, 90)] * 3 + [(20, 200)]
FLAGS = ("--max-area", 64 * 64, "--divisor", 16, "--batch-size", 4)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """19 pictures of four shapes, one of them 1:10."""
    dest = tmp_path_factory.mktemp("buckets") / "shapes"
    rows = [{"image": np.full((h, w, 3), n, np.uint8)} for n, (w, h) in enumerate(SIZES)]
    write(dest, [schema.image(encoding="raw")], rows)
    return dest


def test_the_table_and_the_account(shapes, run):
    out = run(buckets, shapes, *FLAGS)
    assert "4 buckets of 19 images" in out
    for text in ("64x64", "64x32", "16x160", "32x80", "epoch 2:", "0 dropped"):
        assert text in out, out
    assert "warning: 32x80 is under-filled: its 3 images fill a batch of 4 once in 2 epochs" in out
    assert "warning: 16x160 is under-filled: its 1 images fill a batch of 4 once in 4 epochs" in out


def test_json_lists_every_sample(shapes, run):
    found = json.loads(run(buckets, shapes, *FLAGS, "--json", "--epochs", 4))
    with open_dataset(shapes) as dataset:
        plan = plan_buckets([dataset], Buckets(max_area=64 * 64, divisor=16), 4)
    assert found["digest"] == plan.digest
    assert sum(row["samples"] for row in found["buckets"]) == found["samples"] == len(SIZES)
    later = json.loads(run(buckets, shapes, *FLAGS, "--json", "--epochs", 2, "--first-epoch", 2))
    assert later["epochs"] == found["epochs"][2:]
    waiting = 0
    for epoch in found["epochs"]:
        assert waiting == epoch["carried_in"]
        waiting = len(epoch["carried"])
        assert epoch["carried_in"] + 19 == epoch["delivered"] + waiting + len(epoch["dropped"])
        assert epoch["delivered"] == 4 * epoch["steps"]
        assert sum(part["delivered"] for part in epoch["parts"]) == epoch["delivered"]
    square = max(found["buckets"], key=lambda row: row["samples"])
    assert (square["width"], square["height"], square["samples"]) == (64, 64, 9)
    assert square["fit"] == {
        "mean_loss": 0.0, "worst_loss": 0.0, "mean_scale": 1.6, "upscaled": 9, "merged": 0,
    }  # fmt: skip
    tall = next(row for row in found["buckets"] if row["height"] == 80)
    assert bucket_size(40, 90, Buckets(max_area=64 * 64, divisor=16)) == (32, 80)
    assert tall["fit"]["mean_loss"] == pytest.approx(1 - 90 / 100)  # 100 rows fill the width of 40


@pytest.mark.parametrize(
    ("flags", "sizes"),
    [
        (
            ("--max-area", 4096, "--divisor", 16, "--cut-weight", 2),
            {"64x64", "80x48", "48x80", "16x160"},
        ),
        (("--max-area", 4096, "--divisor", 16, "--max-ratio", 2), {"64x64", "64x32", "32x64"}),
        (
            ("--max-area", 4096, "--divisor", 16, "--no-upscale"),
            {"32x32", "64x32", "32x80", "16x160"},
        ),
        (("--size", "64x64", "--size", "64x128"), {"64x64", "64x128"}),
        (
            ("--size", "32x32", "--size", "80x32", "--divisor", 16, "--no-upscale"),
            {"32x32", "80x32"},
        ),
    ],
)
def test_flags_that_choose_sizes(shapes, run, flags, sizes):
    found = json.loads(run(buckets, shapes, "--batch-size", 4, *flags, "--json"))
    assert {f"{row['width']}x{row['height']}" for row in found["buckets"]} == sizes
    if "--no-upscale" in flags:
        larger = {number for number, scale in enumerate(found["fits"]["scale"]) if scale > 1}
        assert larger == (set() if "--max-area" in flags else {18})  # of 20 x 200, smaller than all


def test_samples_that_are_left_out_are_in_no_bucket(shapes, run, tmp_path):
    (tmp_path / "list").write_text("3\n0\n")
    found = json.loads(run(buckets, shapes, *FLAGS, "--json", "--exclude", tmp_path / "list"))
    assert found["samples"] == sum(row["samples"] for row in found["buckets"]) == len(SIZES) - 2
    assert found["excluded"] == [0, 3]


@pytest.mark.parametrize(("leftovers", "kept"), [("merge", 3), ("drop", 4)])
def test_merged_and_dropped_are_told(shapes, run, leftovers, kept):
    found = json.loads(run(buckets, shapes, *FLAGS, "--json", "--leftovers", leftovers))
    assert len(found["buckets"]) == kept
    assert found["merged"] == ([18] if leftovers == "merge" else [])
    for epoch in found["epochs"]:
        assert bool(epoch["dropped"]) == (leftovers == "drop")
        assert not epoch["carried"] or leftovers == "merge"
    out = run(buckets, shapes, *FLAGS, "--leftovers", leftovers)
    said = "warning: 32x80 fills no batch: its 3 images are never delivered"
    assert (said in out) == (leftovers == "drop")


def test_the_plot_shows_every_bucket(shapes, run, tmp_path):
    with open_dataset(shapes) as dataset:
        options = {"batch_size": 4, "buckets": Buckets(max_area=64 * 64, divisor=16)}
        report = make_report(dataset, stream_request("", "train", options))
    outlines, bars = plot(report).axes
    drawn = {(outline.get_width(), outline.get_height()) for outline in outlines.patches}
    assert drawn == {(64, 64), (64, 32), (32, 80), (16, 160)}
    assert {outline.get_xy() for outline in outlines.patches} == {(0, 0)}
    names = [label.get_text() for label in bars.get_yticklabels()]
    assert names == ["64x64", "64x32", "32x80", "16x160"]
    assert [bar.get_width() for bar in bars.patches] == [9, 6, 3, 1]
    run(buckets, shapes, *FLAGS, "--plot", tmp_path / "plan.png")
    with Image.open(tmp_path / "plan.png") as image:
        assert image.size == (1100, 500)


def test_every_image_has_its_fit(shapes, run):
    found = json.loads(run(buckets, shapes, *FLAGS, "--json"))
    fits = found["fits"]
    assert fits["ids"] == list(range(len(SIZES)))
    for number, (width, height) in enumerate(SIZES):
        bucket = found["buckets"][fits["bucket"][number]]
        across, down = bucket["width"] / width, bucket["height"] / height
        assert fits["scale"][number] == pytest.approx(max(across, down))
        assert fits["loss"][number] == pytest.approx(1 - min(across, down) / max(across, down))
    of_each = zip(fits["bucket"], fits["loss"], strict=True)
    by_bucket: dict[int, list[float]] = {}
    for number, loss in of_each:
        by_bucket.setdefault(number, []).append(loss)
    means = [np.mean(by_bucket[number]) for number in range(len(found["buckets"]))]
    assert means == pytest.approx([row["fit"]["mean_loss"] for row in found["buckets"]])


LENGTHS = [3, 9, 30, 31, 5, 32, 60, 8, 70, 0]


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Ten texts of LENGTHS bytes."""
    dest = tmp_path_factory.mktemp("buckets") / "texts"
    write(dest, [schema.blob("text")], [{"text": b"x" * length} for length in LENGTHS])
    return dest


def test_sequences_are_planned_by_length(texts, run, tmp_path):
    flags = (texts, "--lengths", "text", "--bound", 8, "--bound", 32, "--batch-size", 2)
    with pytest.raises(UsageError, match=r"id 6 has length 60; 2 are longer than 32, the long"):
        run(buckets, *flags)
    found = json.loads(run(buckets, *flags, "--longer", "drop", "--json"))
    assert found["excluded"] == [6, 8]
    assert [(b["width"], b["height"], b["samples"]) for b in found["buckets"]] == [
        (8, 0, 4), (32, 0, 4),
    ]  # fmt: skip
    assert found["buckets"][0]["fit"] == {
        "mean_loss": 0.0, "worst_loss": 0.0, "mean_padding": 0.5, "longer": 0, "merged": 0,
    }  # fmt: skip
    cut = json.loads(run(buckets, *flags, "--longer", "truncate", "--json"))
    assert cut["buckets"][1]["samples"] == 6
    assert cut["buckets"][1]["fit"]["longer"] == 2
    assert cut["fits"]["loss"][6] == pytest.approx(28 / 60)
    out = run(buckets, *flags, "--longer", "drop", "--plot", tmp_path / "plan.png")
    assert "2 buckets of 8 sequences" in out
    assert "padding: 26.2% of all positions at the buckets' lengths; cut off: 0.0%" in out
    assert "warning: 2 sequences are longer than every bucket, or excluded: in no epoch" in out
    assert "8 = 8 delivered + 0 carried on + 0 dropped; 2 excluded" in out
    with Image.open(tmp_path / "plan.png") as image:
        assert image.size == (1100, 500)


def test_sizes_as_they_are(shapes, run):
    assert "4 buckets" in run(buckets, shapes, "--no-resize", "--divisor", 1, "--batch-size", 2)


def test_other_commands_are_told_a_bucket(photos, run, tmp_path):
    name = ("command_pipelines:fitted", photos)
    assert "uint8[48x80x3]" in run(explain, *name, "--bucket", "80x48")
    found = json.loads(run(replay, *name, "--id", 2, "--epoch", 1, "--bucket", "80x48", "--json"))
    assert found["outputs"][0]["shape"] == [48, 80, 3]
    run(preview, *name, "--bucket", "48x80", "--out", tmp_path / "sheet.png", "--columns", 2)
    assert (tmp_path / "sheet.png").stat().st_size > 1000
