"""The contenders: their work, their script and its command line."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workloads import packed_of, source_of

HERE = Path(__file__).parent
ALL = ("w1", "w1f", "w2", "w3", "w4")
JPEGS = ("w1", "w1f", "w3", "w4")
TIME_LIMIT_S = 900
OWN_DECODER = {"STOKER_JPEG": "stoker"}
"""What the daemon takes by default, from the first batch on: a run is too short to wait for it."""
LIBJPEG_TURBO = {"STOKER_JPEG": "libjpeg"}


@dataclass(frozen=True)
class Contender:
    """One contender.

    Attributes:
        what: human-readable description.
        script: file name in this folder.
        packed: which of the workload's packed forms it reads; "" means the files themselves.
        options: options of the script.
        peer: name of the peer whose interpreter runs it, see `--peer`; "" means this one.
        workloads: the workloads that it supports.
        environment: variables that are set for it.
        on_request: whether it takes part only if its letter is given.
    """

    what: str
    script: str
    packed: str = ""
    options: tuple[str, ...] = ()
    peer: str = ""
    workloads: tuple[str, ...] = ALL
    environment: Mapping[str, str] = field(default_factory=dict)
    on_request: bool = False


CONTENDERS = {
    "a": Contender(
        "Stoker, daemon and client", "through_daemon.py", "packed", environment=OWN_DECODER
    ),
    "b": Contender(
        "DataLoader, OpenCV (not antialiased)", "torch_loader.py", options=("--style", "cv2")
    ),
    "c": Contender(
        "DataLoader, Pillow", "torch_loader.py", options=("--style", "pillow"), workloads=JPEGS
    ),
    "d": Contender(
        "Stoker's pipeline in plain loops", "plain_loops.py", "packed", environment=OWN_DECODER
    ),
    "e": Contender(
        "Stoker, files stored as they came", "through_daemon.py", "whole", workloads=JPEGS
    ),
    "f": Contender(
        "plain loops, files stored as they came", "plain_loops.py", "whole", workloads=JPEGS
    ),
    "g": Contender(
        "plain loops, eight slots in turns",
        "plain_loops.py",
        "packed",
        options=("--slots", "8"),
        workloads=("w2",),
    ),
    "j": Contender(
        "Stoker, JPEGs by libjpeg-turbo",
        "through_daemon.py",
        "packed",
        workloads=JPEGS,
        environment=LIBJPEG_TURBO,
    ),
    "r": Contender(
        "Stoker, images decoded at a fraction by libjpeg-turbo",
        "through_daemon.py",
        "packed",
        options=("--form", "scaled"),
        workloads=("w1",),
        environment=LIBJPEG_TURBO,
        on_request=True,
    ),
    "s": Contender(
        "Stoker, images decoded at a fraction",
        "through_daemon.py",
        "packed",
        options=("--form", "scaled"),
        workloads=("w1",),
        environment=OWN_DECODER,
        on_request=True,
    ),
    "t": Contender(
        "Stoker, images decoded at a fraction, files stored as they came",
        "through_daemon.py",
        "whole",
        options=("--form", "scaled"),
        workloads=("w1",),
        on_request=True,
    ),
    "dali": Contender("DALI", "peers/dali_loader.py", peer="dali"),
    "tfdata": Contender("tf.data (not antialiased)", "peers/tfdata_loader.py", peer="tfdata"),
    "ffcv": Contender(
        "FFCV, its own file",
        "peers/ffcv_loader.py",
        peer="ffcv",
        workloads=("w1", "w1f", "w2", "w4"),
    ),
    "ffcv-view": Contender(
        "FFCV, floats with the channels last in memory",
        "peers/ffcv_loader.py",
        options=("--view",),
        peer="ffcv",
        workloads=("w2",),
    ),
    "ffcv-half": Contender(
        "FFCV, smaller images, half of them raw",
        "peers/ffcv_loader.py",
        options=("--form", "half"),
        peer="ffcv",
        workloads=("w1",),
    ),
    "torchvision": Contender(
        "DataLoader, torchvision", "peers/torchvision_loader.py", peer="torchvision"
    ),
}
OURS = "".join(
    name for name, contender in CONTENDERS.items() if not (contender.peer or contender.on_request)
)
PEERS = tuple(sorted({contender.peer for contender in CONTENDERS.values() if contender.peer}))


def chosen(workload: str, letters: str, peers: dict[str, str]) -> list[str]:
    """Return the contenders of a workload: our own by letter, peers if they are available."""
    return [
        name
        for name, contender in CONTENDERS.items()
        if workload in contender.workloads
        and (contender.peer in peers if contender.peer else name in letters)
    ]


def output_of(
    name: str, workload: str, data: Path, peers: dict[str, str], options: dict[str, object]
) -> str:
    """Run a contender in a fresh process; return its output.

    Args:
        name: name of the contender.
        workload: name of the workload.
        data: the folder of all data.
        peers: name of a peer -> its interpreter.
        options: options for every contender's script.

    Raises:
        subprocess.CalledProcessError: the contender failed.
    """
    contender = CONTENDERS[name]
    source = source_of(data, workload)
    place = packed_of(data, workload, contender.packed) if contender.packed else source
    interpreter = peers[contender.peer] if contender.peer else sys.executable
    command = [interpreter, str(HERE / contender.script), str(place), "--workload", workload]
    command += contender.options
    for option, value in options.items():
        command += [f"--{option}"] if value is True else [f"--{option}", str(value)]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, timeout=TIME_LIMIT_S,
        start_new_session=True, env={**os.environ, **contender.environment},
    ).stdout  # fmt: skip
