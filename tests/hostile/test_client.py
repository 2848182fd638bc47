"""A daemon that answers a client with anything: a typed error, in time, and no harm."""

import gc
import math
import os
import random
import socket
import tempfile
from contextlib import suppress
from itertools import islice
from pathlib import Path

import fake_daemons
import msgpack
import pytest
from fake_daemons import FakeDaemon

from stoker.client import Connection, Loader
from stoker.protocol import messages as m
from stoker.protocol.errors import StokerError

VALUES = (
    0, 1, -1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, 1.5, math.nan, math.inf, None,
    True, "", "a" * 300, "object", "float64", "\0", b"", b"\xff" * 16, [], {}, [[]] * 40, {"a": {}},
    "../../etc/passwd",
)  # fmt: skip


def changed(data: bytes, rng: random.Random) -> bytes:
    """Change one value of a message, at any depth, or its bytes."""
    if rng.random() < 0.1:
        place = rng.randrange(len(data))
        return data[:place] + bytes([rng.randrange(256)]) + data[place + rng.randrange(3) :]
    tree = msgpack.unpackb(data, strict_map_key=False)
    parts = [(tree, key) for key in keys(tree)]
    for part, key in parts:  # the list grows while it is read
        parts += [(part[key], inner) for inner in keys(part[key])]
    part, key = parts[rng.randrange(len(parts))]
    if isinstance(part, list) and rng.random() < 0.1:
        del part[key]
    else:
        part[key] = rng.choice(VALUES)
    return bytes(msgpack.packb(tree))


def keys(value: object) -> list:
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []


def wrong_descriptor(rng: random.Random, right: int) -> int | None:
    """A descriptor of anything; the caller closes it."""
    how = rng.randrange(8)
    if how == 0:
        return None
    if how == 1:
        reader, writer = os.pipe()
        os.close(writer)
        return reader
    if how == 2:
        return os.open(rng.choice(["/dev/null", "/dev/zero", "/", "/proc/self/mem"]), os.O_RDONLY)
    if how == 3:
        one, two = socket.socketpair()
        two.close()
        return one.detach()
    if how == 4:
        with tempfile.TemporaryFile() as file:
            file.truncate(2**20)
            return os.dup(file.fileno())
    made = os.memfd_create("hostile", os.MFD_ALLOW_SEALING)
    if how > 5:  # of the right size, but it may shrink
        os.ftruncate(made, os.fstat(right).st_size)
    return made


class Hostile(FakeDaemon):
    """Changes one of its messages or packets."""

    def __init__(self, folder: Path, seed: str) -> None:
        self.rng = random.Random(seed)
        self.left = self.rng.randrange(12)
        super().__init__(folder)

    def due(self) -> bool:
        """Return whether this is the message to change."""
        self.left -= 1
        return self.left == -1

    def _send(self, *records) -> None:
        for record in records:
            data = fake_daemons.encode(self._token, [record])
            super()._send(changed(data, self.rng) if self.due() else data)


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(prefix="st-") as path:
        yield Path(path)


def descriptors() -> set[tuple[str, str]]:
    """The open descriptors, and what they are of."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # of the listing itself
            found.add((name, os.readlink(f"/proc/self/fd/{name}")))
    return found


def replayed(record):
    memory = os.memfd_create("replay")
    os.pwrite(memory, bytes(64), 0)
    return m.Replayed(record.request, 64), memory


def use(daemon: FakeDaemon) -> str:
    """Load some batches and a replay; return the code of the error that came, if one did."""
    try:
        with Loader(
            daemon.address, pipeline="train", batch_size=16, device="numpy",
            connection=Connection(timeout_s=0.1, connect_timeout_s=0.1),
            ) as loader:  # fmt: skip
            for batch in islice(loader, 3):
                assert all(array.sum() is not None for array in batch.values())
            loader.replay(3, 0)
    except StokerError as error:
        return error.code if str(error) else "no message"
    return "fine"


@pytest.mark.as_a_user
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_changed_answers_are_typed_errors_or_batches(folder, rounds, monkeypatch):
    """Nothing is left behind either: no descriptor, no map."""
    send, seen = fake_daemons.send_packet, set()
    before = descriptors()
    for number in range(rounds(150)):
        daemon = Hostile(folder, f"client {number}")
        daemon.answer_replay = replayed

        def send_changed(sock, data, descriptor=None, daemon=daemon):
            if not daemon.due():
                send(sock, data, descriptor)
            elif descriptor is None or daemon.rng.random() < 0.5:
                send(sock, changed(data, daemon.rng), descriptor)
            else:
                wrong = wrong_descriptor(daemon.rng, descriptor)
                try:
                    send(sock, data, wrong)
                finally:
                    if wrong is not None:
                        os.close(wrong)

        monkeypatch.setattr(fake_daemons, "send_packet", send_changed)
        try:
            seen.add(use(daemon))
        except Exception as error:
            error.add_note(f"answers of daemon {number}")
            raise
        finally:  # a client that left, or that repeats what it was sent, is not what it expects
            with suppress(Exception):
                daemon.close()
    gc.collect()
    assert sorted(descriptors() - before) == []
    assert {"protocol", "version"} <= seen
    assert "no message" not in seen
