"""grid_distortion against OpenCV's remap over NumPy's piecewise linear map, and its edges."""

import cv2
import numpy as np

from stoker.ops import GridDistortion
from stoker.ops.testing import structured
from stoker.protocol.item_fields import ItemField
from stoker.protocol.ragged import pack_items, unpack_items

BOXES = (ItemField("xyxy", "float32", 4), ItemField("label", "int64"))
POINTS = (ItemField("xy", "float32", 2), ItemField("label", "int64"))


def decision(as_record, across, down):
    record = as_record(GridDistortion.record)
    record["apply"] = 1
    record["across"][: len(across)], record["down"][: len(down)] = across, down
    return record


def exact(size, stretches):
    """Positions of pixel centers, in pixels, by numpy.interp."""
    sizes = 1 + np.array(stretches)
    knots = np.concatenate([[0], np.cumsum(sizes) / sizes.sum()]) * size
    ticks = np.linspace(0, size, len(sizes) + 1)
    return np.interp(np.arange(size) + 0.5, ticks, knots) - 0.5


def test_pixels_are_opencvs_within_rounding(run_op, as_record, photo):
    image = np.ascontiguousarray(photo[100:201, 150:283])
    across, down = (0.3, -0.25, 0.1, -0.9, 0.9), (-0.2, 0.3, 0.0, 0.15, -0.1)
    op = GridDistortion(5)
    got = run_op(op, [("image", image)], record=decision(as_record, across, down)).outputs[0]
    x, y = np.meshgrid(exact(133, across), exact(101, down))
    maps = x.astype(np.float32), y.astype(np.float32)
    border = cv2.BORDER_REPLICATE
    expected = cv2.remap(image.astype(np.float32), *maps, cv2.INTER_LINEAR, borderMode=border)
    # OpenCV rounds places to 1/32 of a pixel, here it is 1/2048.
    assert np.abs(got - expected).max() <= 9
    assert np.abs(got - expected).mean() < 0.5


def test_no_stretch_changes_nothing_and_nothing_enters(run_op, as_record, noise):
    image = noise((37, 51, 3))
    op = GridDistortion(16)
    same = run_op(op, [("image", image)], record=decision(as_record, (), ())).outputs[0]
    assert (same == image).all()
    mask = np.full((37, 51), 9, np.uint8)
    for key in range(10):
        out = run_op(GridDistortion(7, (-0.9, 0.9), p=1), [("mask", mask)], key).outputs[0]
        assert (out == 9).all()


def test_only_given_cells_count(run_op, as_record, noise):
    image, record = noise((37, 51, 3)), decision(as_record, [0.2] * 16, [0.1] * 16)
    first = run_op(GridDistortion(4), [("image", image)], record=record).outputs[0]
    record["across"][4:] = -0.8
    again = run_op(GridDistortion(4), [("image", image)], record=record).outputs[0]
    assert (first == again).all()


def knots(size, stretches):
    """Borders of the cells in the source and in the output, in pixels."""
    sizes = np.floor((1 + np.array(stretches)) * 65536 + 0.5)
    source = np.concatenate([[0], np.cumsum(sizes) / sizes.sum()]) * size
    return source, np.linspace(0, size, len(sizes) + 1)


def moved(op, kind, fields, columns, record):
    words = pack_items(fields, columns)
    out = np.zeros_like(words)
    visible = (0,) if op.items[kind].visible else ()
    size = (101, 133)
    params = structured(op.parameters, op.params())
    count = op.items[kind].run(words, out, params, record, (*size, *size), *visible)
    return unpack_items(fields, out[:count])


def test_boxes_and_keypoints_move_by_the_inverse_of_numpys_map(as_record):
    across, down = (0.3, -0.25, 0.1, -0.9, 0.9), (-0.2, 0.3, 0.0, 0.15, -0.1)
    op, record = GridDistortion(5), decision(as_record, across, down)
    rng = np.random.default_rng(4)
    x, y = np.sort(rng.uniform(0, 133, (50, 2)), 1), np.sort(rng.uniform(0, 101, (50, 2)), 1)
    corners = np.stack([x[:, 0], y[:, 0], x[:, 1], y[:, 1]], 1).astype(np.float32)
    corners[:3] = [[0, 0, 133, 101], [133, 101, 133, 101], [0, 50, 0, 50]]
    expected = np.empty_like(corners, np.float64)
    expected[:, 0::2] = np.interp(corners[:, 0::2], *knots(133, across))
    expected[:, 1::2] = np.interp(corners[:, 1::2], *knots(101, down))
    labels = np.arange(50) * 2**33
    found = moved(op, "boxes", BOXES, {"xyxy": corners, "label": labels}, record)
    assert np.abs(found["xyxy"] - expected).max() < 2e-5
    assert found["xyxy"][:2].tolist() == corners[:2].tolist()
    assert (found["label"] == labels).all()
    points = {"xy": corners[:, :2], "label": labels}
    found = moved(op, "keypoints", POINTS, points, record)
    assert np.abs(found["xy"] - expected[:, :2]).max() < 2e-5
    record["apply"] = 0
    found = moved(op, "boxes", BOXES, {"xyxy": corners, "label": labels}, record)
    assert (found["xyxy"] == corners).all()


def test_what_reaches_over_the_image_is_clipped_or_left_out(as_record):
    op, record = GridDistortion(2), decision(as_record, (0.5, -0.5), (0.0, 0.0))
    corners = np.array([[-9, -9, 50, 50], [140, 10, 150, 20], [100, 90, 140, 110]], np.float32)
    columns = {"xyxy": corners, "label": np.arange(3)}
    found = moved(op, "boxes", BOXES, columns, record)
    assert found["label"].tolist() == [0, 2]
    assert found["xyxy"][0, :2].tolist() == [0, 0]
    assert found["xyxy"][1, 2:].tolist() == [133, 101]
    points = {"xy": corners[:, :2], "label": np.arange(3)}
    assert moved(op, "keypoints", POINTS, points, record)["label"].tolist() == [2]
