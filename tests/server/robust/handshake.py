"""Clients that stop in the middle of their handshake: `python handshake.py ADDRESS POINT...`.

For each point of the handshake, a process of its own goes as far and then waits to be killed. Each
writes `POINT PID` on standard output once it is there.
"""

import os
import select
import sys

from stoker.client.client_session import ClientSession
from stoker.protocol.messages import Open
from stoker.protocol.request.stream_request import (
    BatchRequest,
    DeliveryRequest,
    SourceRequest,
    StreamRequest,
)

TIMEOUT_S = 20.0


def main(address: str, points: list[str]) -> None:
    for point in points:
        if not os.fork():
            stop(address, point)
    for _ in points:
        os.wait()


def stop(address: str, point: str) -> None:
    """Go as far as the point, say so, and wait."""

    class Stopping(ClientSession):
        def _attach(self, *arguments: object) -> None:
            if point == "welcome":
                arrived(point)
            super()._attach(*arguments)

    session = Stopping(address, TIMEOUT_S)
    if point == "attached":
        arrived(point)
    if point == "building":
        session.send(asked("sleeps"))
        arrived(point)
    session.open_stream(asked("labels"), TIMEOUT_S)
    arrived(point)


def asked(pipeline: str) -> Open:
    source = SourceRequest(dataset="small", pipeline=pipeline)
    stream = StreamRequest(sources=(source,), batch=BatchRequest(positions=5))
    return Open(1, stream, DeliveryRequest(prefetch=3, leases=2))


def arrived(point: str) -> None:
    sys.stdout.write(f"{point} {os.getpid()}\n")
    sys.stdout.flush()
    select.select([], [], [])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
