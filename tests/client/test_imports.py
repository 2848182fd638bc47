"""Modules that importing and using the client loads, each in a fresh interpreter."""

import subprocess
import sys

import pytest


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_client_imports_neither_torch_nor_the_server(loaded_by) -> None:
    heavy = ("torch", "numba", "pyarrow", "stoker.server", "stoker.pipeline", "stoker.ops")
    loaded = loaded_by("import stoker.client", "stoker.client.loader", *heavy)
    assert loaded == {"stoker.client.loader"}


LOAD = """
import sys
{before}
from stoker.client import Loader
with Loader(sys.argv[1], pipeline="train", batch_size=16{more}) as loader:
    for batch in loader:
        assert batch.image.shape == (16, 32, 48, 3)
    print(type(batch.image).__module__, "torch" in sys.modules)
"""


def test_without_torch_batches_are_numpy_arrays(daemon) -> None:
    code = LOAD.format(before="sys.modules['torch'] = None", more="")
    assert run(code, daemon.address).split() == ["numpy", "True"]


@pytest.mark.parametrize("more", [", device='numpy'"])
def test_numpy_asked_for_does_not_load_torch(daemon, more: str) -> None:
    assert run(LOAD.format(before="", more=more), daemon.address).split() == ["numpy", "False"]


def test_a_device_needs_torch() -> None:
    code = """
import sys
sys.modules["torch"] = None
from stoker.client import Loader
from stoker.protocol.errors import UsageError
try:
    Loader("ipc:///x/y", pipeline="p", batch_size=1, device="cuda")
except UsageError as error:
    print(error)
"""
    assert "device='cuda': torch is not installed; use device='numpy'" in run(code)
