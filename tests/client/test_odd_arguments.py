"""Every argument of a Loader with unexpected values: an error of Stoker names it.

No daemon listens at the address, so what is accepted here ends with a ConnectError.
"""

import inspect
import itertools
import traceback
from pathlib import Path

import numpy as np
import pytest

from stoker.client import Loader
from stoker.protocol.errors import ConnectError, StokerError

ADDRESS = "ipc:///nowhere/stoker.sock"
GOOD = {"pipeline": "train", "batch_size": 4, "device": "numpy"}
ODD = {
    "none": lambda: None,
    "empty": lambda: "",
    "negative": lambda: -1,
    "zero": lambda: 0,
    "float": lambda: 1e9,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "complex": lambda: 1j,
    "huge": lambda: 10**400,
    "very negative": lambda: -(2**70),
    "more than int64": lambda: 2**63,
    "bool": lambda: True,
    "bytes": lambda: b"x",
    "zero byte": lambda: "x\0y",
    "not UTF-8": lambda: "\udcff",
    "long": lambda: "x" * 10**5,
    "path": lambda: Path("x"),
    "object": object,
    "type": lambda: int,
    "function": lambda: len,
    "tuple": lambda: (),
    "nested": lambda: [[1, [2]], [[3]]],
    "texts": lambda: ["x"],
    "iterator": lambda: iter(()),
    "endless": lambda: itertools.repeat("x", 5),
    "set": lambda: {1, "a"},
    "dict": lambda: {"a": {}},
    "dict of numbers": lambda: {1: 2},
    "array": lambda: np.zeros((2, 2, 2)),
    "array of NaN": lambda: np.full(22, np.nan),
    "array of text": lambda: np.array(["a"]),
}
UNNAMED = {"address_or_path"}
"""Its errors name what it holds: an address or a path."""
NAMES = [name for name in inspect.signature(Loader.__init__).parameters if name != "self"]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in {"others", "kwargs"}])
def test_odd_values_are_refused_by_name(name):
    for label, make in ODD.items():
        error = outcome(**{"address_or_path": ADDRESS, **GOOD, name: make()})
        is_named = name in str(error) or name in UNNAMED
        is_known = isinstance(error, StokerError) or (
            isinstance(error, TypeError) and "/stoker/" in raised_in(error)
        )
        assert isinstance(error, ConnectError) or (is_known and is_named), (label, error)


def outcome(address_or_path, **given) -> Exception | None:
    """The error of a Loader with these arguments."""
    try:
        Loader(address_or_path, **given).close()
    except Exception as error:
        return error
    return None


def raised_in(error: Exception) -> str:
    """The file whose code raised an error."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return frame.f_code.co_filename
