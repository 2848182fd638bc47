"""Operations that a Loader refuses when it builds its pipelines, with the operation's line."""

import importlib
import sys

import ffcv_ops
import pytest

from stoker.compat.ffcv import Loader
from stoker.compat.ffcv.fields.decoders import IntDecoder, SimpleRGBImageDecoder
from stoker.compat.ffcv.transforms import ToTensor
from stoker.protocol.errors import BuildError

EDITED = """
from stoker.compat.ffcv.pipeline import AllocationQuery, Operation


class Fill(Operation):
    def generate_code(self):
        def run(labels, dst):
            dst[:] = {number}
            return dst

        return run

    def declare_state_and_memory(self, previous_state):
        return previous_state, AllocationQuery(previous_state.shape, previous_state.dtype)
"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "PassesOn",
            r"ffcv_ops.py:\d+: .*draw_one draws .*, so it cannot be passed on",
        ),
        ("Chooses", r"ffcv_ops.py:\d+: .*several draws .*, so it cannot be passed on"),
        ("Recurses", r"draws_again draws random numbers and calls itself"),
        (
            "Gamma",
            r"ffcv_ops.py:\d+: .*np.random.gamma cannot be drawn per row; supported",
        ),
        ("SeededByNothing", r"ffcv_ops.py:\d+: .*np.random.seed\(\): expected a number"),
        ("HandsOn", r"ffcv_ops.py:\d+: .*np.random.rand cannot be passed on: call it directly"),
        (
            "FewerRows",
            r"returned an array of shape \(\d+, 32, 32, 3\) for \d+ rows, but it declared",
        ),
        ("Pair", "Pair of field 'image' returned tuple, but it declared NumPy uint8 of shape"),
        ("Counts", r"with_counter is not of FFCV, but of its fork .*: seed with indices\[-1\]"),
        ("Untypable", "fails on NumPy uint8 of shape .*: TypingError"),
        ("WithoutSource", "cannot find the source of shifts; operations are rewritten from their"),
        ("Lambda", "generate_code must return a function made with `def`"),
    ],
)
def test_what_cannot_run_is_refused_when_it_is_built(packed, name, message):
    steps = [SimpleRGBImageDecoder(), getattr(ffcv_ops, name)(), ToTensor()]
    with pytest.raises(BuildError, match=message):
        Loader(packed, 6, pipelines={"image": steps, "label": None})


def test_an_operation_whose_file_was_edited_is_refused(packed, interpreted, tmp_path, monkeypatch):
    """Operations are rewritten from their source, so a later edit must not be read."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_operation.py"
    file.write_text(EDITED.format(number=1))
    fill = importlib.import_module("edited_operation").Fill
    try:
        lines = {"label": [IntDecoder(), fill(), ToTensor()], "image": None}
        file.write_text(EDITED.format(number=2))
        with pytest.raises(BuildError, match=r"Fill of field .label.: .*edited_operation\.py was"):
            Loader(packed, 6, pipelines=lines)
    finally:
        del sys.modules["edited_operation"]
