"""The workloads: their data, made on first use, and how each is packed for Stoker."""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from foreign_data import arrange, is_foreign

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Workload:
    """One workload.

    Attributes:
        what: human-readable description.
        data: the name of its data in `make_data.py`, and of their folder.
        batch_size: rows of a batch, for all contenders.
        packed: name -> arguments of `stoker pack`; the first is the one to compare with.
    """

    what: str
    data: str
    batch_size: int
    packed: dict[str, tuple[str, ...]]


PHOTOGRAPHS = {"packed": (), "whole": ("--no-grid",)}
WORKLOADS = {
    "w1": Workload(
        "JPEG -> random resized crop 224, flip -> uint8",
        "images",
        256,
        PHOTOGRAPHS,
    ),
    "w1f": Workload("the same -> normalized float32 CHW", "images", 256, PHOTOGRAPHS),
    "w2": Workload(
        "50,000 raw 32x32 -> crop of padded, flip -> normalized float32 CHW",
        "tiny",
        512,
        {"packed": ("--kind", "arrays")},
    ),
    "w3": Workload(
        "JPEG and PNG mask -> random resized crop 512, flip -> uint8",
        "pairs",
        16,
        {"packed": (), "whole": ("--no-grid", "--no-bands")},
    ),
    "w4": Workload(
        "JPEG -> shorter side 256, center crop 224 -> uint8", "images", 256, PHOTOGRAPHS
    ),
}


def source_of(data: Path, name: str) -> Path:
    """Return the files of a workload; make them if they do not exist."""
    source = data / WORKLOADS[name].data
    done = data / f"{WORKLOADS[name].data}.json"
    if not done.exists():
        shutil.rmtree(source, ignore_errors=True)
        if is_foreign(data):
            arrange(data, source.name)
            done.write_text("{}\n")
        else:
            made = [sys.executable, str(HERE / "make_data.py"), str(data), "--what", source.name]
            subprocess.run(made, check=True, stdout=sys.stderr)
    return source


def packed_of(data: Path, name: str, how: str) -> Path:
    """Return a workload's files packed for Stoker; pack them if they are not packed."""
    source, dest = source_of(data, name), data / f"{WORKLOADS[name].data}-{how}"
    if not dest.exists():
        partial = dest.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        stoker = str(Path(sys.executable).with_name("stoker"))
        options = WORKLOADS[name].packed[how]
        subprocess.run(
            [stoker, "pack", str(source), str(partial), *options], check=True, stdout=sys.stderr
        )
        partial.rename(dest)
    return dest
