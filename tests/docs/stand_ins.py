"""Replacements for running a page: small data, batches that fit them, and this host."""

import contextlib
import socket
from pathlib import Path

from law_rig import real_photographs, write_source

ROOT = Path(__file__).parents[2]
REPLACED = {
    "README.md": {"batch_size=64": "batch_size=16"},
    "docs/client.md": {
        "batch_size=256": "batch_size=16",
        "batch_size=64": "batch_size=16",
        "reshape(256,": "reshape(16,",
        "range(90)": "range(2)",
        "batches=50": "batches=1",
        "50_000": "48",
        "5_000": "9",
        "/data/packed": "packed",
        "workers=8": "workers=2",
    },
    "docs/configuration.md": {"/data/photos": "packed"},
    "docs/guides/evaluation.md": {"batch_size=256": "batch_size=16", '"cuda"': '"cpu"'},
    "docs/guides/other-hosts.md": {
        "batch_size=256": "batch_size=16",
        "~/.stoker/alice.key": "alice.key",
    },
    "docs/guides/sweeps.md": {"batch_size=256": "batch_size=16", "size=4": "size=1"},
}
"""Page -> what is otherwise with 37 photographs."""


def replaced(page: Path, folder: Path) -> dict[str, str]:
    """Return {old: new} of a page whose daemons listen in a folder."""
    name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else ""
    given = {"ipc:///run/stoker/": f"ipc://{folder}/run/", **REPLACED.get(name, {})}
    if name == "docs/guides/other-hosts.md":
        one, two = free_ports(), free_ports()
        given["tcp://loader-1:7470"] = f"tcp://127.0.0.1:{one}"
        given["tcp://loader-2:7470"] = f"tcp://127.0.0.1:{two}"
        given['"loaders", 7470'] = f'"127.0.0.1", {one}'
    return given


def free_ports() -> int:
    """Return a TCP port that is free, as is the next one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = first.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


def make_photos(folder: Path) -> None:
    """Write images and masks of two classes into a new folder."""
    folder.mkdir()
    write_source(folder, real_photographs())
