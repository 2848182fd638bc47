"""`stoker preview` shows what a batch would hold: right pictures, targets where they belong."""

import numpy as np
import pytest
from PIL import Image

from stoker.protocol.replayed_row import Replay, ReplayValue
from stoker.rng.row import Row
from stoker.server.commands.preview_command import preview
from stoker.server.inspect.contact_sheet import (
    CAPTION,
    CELL,
    GAP,
    Shown,
    augmented,
    picture_output,
    sheet,
)
from stoker.server.inspect.value_files import palette
from stoker.server.rows.subject import open_subject

PIPELINE = "command_pipelines:train"
NONE = np.zeros((0, 4), np.float32), np.zeros((0, 2), np.float32)


def cell(page: np.ndarray, row: int, column: int) -> np.ndarray:
    top, left = GAP + row * (CELL + CAPTION + GAP), GAP + column * (CELL + GAP)
    return page[top : top + CELL, left : left + CELL]


@pytest.fixture(scope="module")
def replays(photos):
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(__file__).rpartition("/")[0])
        with open_subject(PIPELINE, photos) as subject:
            return [subject.replay(Row(0, number, 3)) for number in range(6)]


def test_the_sheet_has_a_line_for_each_sample(photos, run, tmp_path):
    out = run(
        preview, PIPELINE, photos, "--out", tmp_path / "s.png", "--ids", "1,4", "--columns", 3
    )
    with Image.open(tmp_path / "s.png") as page:
        assert page.size == (GAP + 4 * (CELL + GAP), GAP + 2 * (CELL + CAPTION + GAP))
        pixels = np.asarray(page)
    assert all(cell(pixels, row, column).std() > 10 for row in (0, 1) for column in range(4))
    assert not np.array_equal(cell(pixels, 0, 1), cell(pixels, 0, 2))
    assert "2 samples, 3 epochs from 0" in out
    assert "  random_resized_crop: applied in 6 of 6" in out
    taken = [line.split(" in ")[1] for line in out.splitlines() if "brightness" in line]
    assert taken[0] in {f"{count} of 6" for count in range(7)}


def test_a_schedule_follows_the_epochs_shown(photos, run, tmp_path):
    out = run(
        preview, "command_pipelines:scheduled", photos, "--out", tmp_path / "s.png",
        "--ids", 1, "--columns", 2, "--total-epochs", 2,
    )  # fmt: skip
    assert "  brightness: applied in 2 of 2" in out


def test_by_default_eight_samples_are_spread_over_the_dataset(photos, run, tmp_path):
    out = run(preview, PIPELINE, photos, "--out", tmp_path / "s.png", "--columns", 1)
    assert "6 samples, 1 epochs" in out
    (tmp_path / "list").write_text("0\n5\n")
    without = ["--columns", 1, "--exclude", tmp_path / "list"]
    assert "4 samples" in run(preview, PIPELINE, photos, "--out", tmp_path / "s.png", *without)


def test_a_normalized_output_is_shown_as_it_was_before(replays):
    for replay in replays:
        shown = augmented(replay, "image", {"label": ("day", "night")})
        assert shown.pixels.shape == (48, 64, 3)
        back = replay.output("image").astype(np.float32) * 0.25 + 0.5
        assert np.abs(shown.pixels - np.moveaxis(back, 0, -1) * 255).max() < 0.5
        assert np.array_equal(shown.mask, replay.output("mask"))
        assert shown.caption == f"epoch 3\n{('day', 'night')[int(replay.output('label'))]}"


def test_an_output_without_8_bit_image_is_stretched():
    field = ReplayValue("image", "image", 0, None, np.zeros((9, 9, 3), np.uint8))
    array = np.linspace(-2, 3, 4 * 5 * 3, dtype=np.float32).reshape(3, 4, 5)
    output = ReplayValue("x", "array", -1, 0, array)
    replay = Replay("", 0, 1, 2, 0, 0, (field,), (), (output,))
    pixels = augmented(replay, "x", {}).pixels
    assert pixels.shape == (4, 5, 3)
    assert np.array_equal(pixels[..., 0], np.round((array[0] + 2) * 51))
    assert (pixels.min(), pixels.max()) == (0, 255)


def test_masks_boxes_and_points_lie_where_they_belong():
    mask = np.zeros((CELL // 2, CELL // 2), np.int32)
    mask[:, 60:] = 257  # shown by its lowest 8 bits
    boxes = np.array([[10, 20, 40, 50]], np.float32)
    points = np.array([[5, 60], [20, 100]], np.float32)
    gray = np.full((CELL // 2, CELL // 2, 3), 100, np.uint8)
    got = cell(np.asarray(sheet([[Shown(gray, mask, boxes, points, "id 1\nday")]])), 0, 0)
    red = palette()[1]
    assert got[200, 60].tolist() == [100, 100, 100]
    assert np.abs(got[200, 160] - (100 * 0.55 + red * 0.45)).max() <= 1
    assert [got[y, x].tolist() for y, x in ((40, 40), (100, 40), (40, 80), (70, 20))] == [
        red.tolist()
    ] * 4
    assert got[70, 60].tolist() == [100, 100, 100]
    assert got[120, 10].tolist() == red.tolist()
    assert got[200, 40].tolist() == palette()[2].tolist()


def test_a_wide_picture_keeps_its_ratio_and_gray_is_shown():
    gray = np.full((20, 80, 1), 9, np.uint8)
    wide = np.broadcast_to(gray, (20, 80, 3))
    got = cell(np.asarray(sheet([[Shown(wide, None, *NONE, "")]])), 0, 0)
    assert (got[: CELL // 4] == 9).all()
    assert (got[CELL // 4 :] == 255).all()


def test_which_output_is_shown(replays):
    assert picture_output(replays[0]) == ("image", "image")
