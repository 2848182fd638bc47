"""A training that keeps one kind of process busy: `python killed.py KIND WHERE`.

It writes the process ids that belong to it, and then waits to be killed.
"""

import json
import select
import sys
import time

import handshake

from stoker.client import Connection, Loader
from stoker.client.client_session import ClientSession
from stoker.client.private.private_daemon import daemon_pids
from stoker.protocol.messages import AskReplay


def main(kind: str, where: str) -> None:
    held = [begin(kind, where)]
    sys.stdout.write(json.dumps(daemon_pids()) + "\n")
    sys.stdout.flush()
    select.select(held[1:], [], [])


def begin(kind: str, where: str) -> object:
    """Begin what the kind names; return what must stay open."""
    if kind in ("tcp", "private"):
        named: dict = {"dataset": "small"} if kind == "tcp" else {}
        pipeline = "labels" if kind == "tcp" else "robust_pipelines:labels"
        options = json.loads(where)
        named |= {name: options.pop(name) for name in ("workers",) if name in options}
        loader = Loader(
            options.pop("address"), pipeline=pipeline, batch_size=5, device="numpy", **named,
            connection=Connection(**options),
        )  # fmt: skip
        return loader, next(iter(loader))
    session = ClientSession(where, handshake.TIMEOUT_S)
    session.send(handshake.asked("labels" if kind == "replayer" else "sleeps"))
    if kind == "replayer":
        session.receive(time.monotonic() + handshake.TIMEOUT_S)
        session.send(AskReplay(2, 0, 0, 0, 0))
    return session


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
