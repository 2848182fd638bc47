"""benchmarks/gpu.py runs on a CPU, as a trial of the script; its network is ResNet-50."""

import importlib.util
import re
from pathlib import Path

import forked_parts
import pytest


def test_the_network_is_resnet_50(root: Path) -> None:
    """25,557,032 parameters, as torchvision's documentation says."""
    spec = importlib.util.spec_from_file_location("resnet", root / "benchmarks/resnet.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    assert sum(p.numel() for p in made.resnet().parameters()) == 25_557_032


@pytest.mark.slow
def test_a_trial_on_the_cpu(root: Path, tmp_path: Path) -> None:
    words = ["--device", "cpu", "--cores", "1", "--steps", "2", "--only", "stoker", "dali-gpu"]
    printed = forked_parts.output_of(
        root / "benchmarks/gpu.py", *words, "--data", tmp_path,
        imports=("stoker.client", "stoker.pipeline", "torch.utils.data"),
    )  # fmt: skip
    assert re.search(r"copies from slots \d+\.\d\d GB/s, from pinned memory \d", printed)
    assert re.search(r"\| stoker \| 1 \| \d+\.\d ms \| \d+\.\d ms \| \d+% \|", printed)
    assert "| dali-gpu | not measured: it needs what is not here |" in printed
