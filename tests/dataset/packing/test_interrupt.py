"""Ctrl-C while packing: it says what to do next, and that is true. Real processes and signals."""

import os
import signal
import subprocess
import sys

import pytest

from stoker.dataset import open_dataset

MODULE = """
import os

import numpy as np


class Rows:
    fingerprint = "noise of 2026"

    def __len__(self):
        return 7

    def __getitem__(self, index):
        if index == 5 and os.path.exists("pipe"):
            with open("pipe", "rb") as pipe:  # waits until the test opens it, then until it closes
                pipe.read()
        noise = np.random.default_rng(index).integers(0, 256, (800, 800, 3), np.uint8)
        return {"image": noise, "label": index}
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_the_same_command_resumes_after_an_interrupt(tmp_path, workers):
    (tmp_path / "noise.py").write_text(MODULE)
    os.mkfifo(tmp_path / "pipe")
    words = ["-m", "stoker.server", "pack", "noise:Rows", "d", "--raw", "--workers", str(workers)]
    command = [sys.executable, *words]
    first = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with open(tmp_path / "pipe", "wb"):  # opens once a worker reads row 5
        first.send_signal(signal.SIGINT)
        _, said = first.communicate(timeout=60)
    assert first.returncode == 130, said
    assert "run the same command again to continue: finished files are kept" in said
    assert "Traceback" not in said
    (tmp_path / "pipe").unlink()
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    if workers == 1:  # with 2, the files before the interrupted one may still have been at work
        assert "of them were kept from an earlier run" in again.stdout
    with open_dataset(tmp_path / "d") as dataset:
        assert [int(dataset.read("label", row)) for row in range(len(dataset))] == list(range(7))
