"""Draw records in a slot: read back as they were written, and refused where they cannot be."""

import numpy as np
import pytest

from stoker.client.batches.batch_params import read_params
from stoker.protocol.draw_records import Drawn, DrawnField, check_drawn, params_output
from stoker.protocol.errors import ProtocolError
from stoker.protocol.slot_layout import Output

CROP = Drawn("crop", "random_crop", 0, (DrawnField("top", "int32", (), 1),))
JITTER = Drawn(
    "jitter", "color_jitter", 5,
    (DrawnField("factor", "float64", (), 6), DrawnField("order", "uint8", (4,), 14)),
)  # fmt: skip


def test_records_are_read_by_name():
    rows = np.zeros((3, 18), np.uint8)
    rows[:, 0] = 1
    rows[:, 1:5] = np.array([[7], [-1], [2**31 - 1]], "<i4").view(np.uint8)
    rows[1, 5] = 1
    rows[1, 6:14] = np.array([0.25], "<f8").view(np.uint8)
    rows[1, 14:] = [3, 1, 0, 2]
    check_drawn([CROP, JITTER], 18)
    found = read_params([CROP, JITTER], rows)
    assert list(found) == ["crop", "jitter"]
    assert found["crop"]["made"].tolist() == [True] * 3
    assert found["crop"]["top"].tolist() == [7, -1, 2**31 - 1]
    assert found["jitter"]["made"].tolist() == [False, True, False]
    assert found["jitter"]["factor"].tolist() == [0, 0.25, 0]
    assert found["jitter"]["order"].tolist() == [[0] * 4, [3, 1, 0, 2], [0] * 4]
    rows[:] = 0
    assert found["crop"]["top"][0] == 7, "they are of memory of their own"


def test_the_output():
    assert params_output(18) == (Output("params", "uint8", (18,), "params"),)
    assert params_output(0) == ()


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        ([CROP, CROP], "expected distinct decision names"),
        ([JITTER], "jitter ends at byte 18, but a row has only 17 bytes"),
        ([Drawn("a", "a", 17, ())], "a ends at byte 18, but a row has only 17 bytes"),
        ([Drawn("a", "a", 0, (DrawnField("x", "object", (), 1),))], "got 'object'"),
        (
            [Drawn("a", "a", 0, (DrawnField("made", "bool", (), 1),))],
            "expected distinct field names",
        ),
        (
            [Drawn("a", "a", 0, (DrawnField("x", "bool", (), 1),) * 2)],
            "expected distinct field names",
        ),
    ],
)
def test_impossible_draw_records_are_refused(drawn, message):
    with pytest.raises(ProtocolError, match=message):
        check_drawn(drawn, 17)
