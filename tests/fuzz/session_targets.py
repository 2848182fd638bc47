"""Targets: sequences of records, through the state of the daemon and the client's checks; keys."""

import os
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import numpy as np
from target_tools import accepts, folder, prepared, target

from stoker.client.verifying import Verifier
from stoker.protocol import codec, messages
from stoker.protocol.chain import batch_of_rows
from stoker.protocol.errors import ConfigError, StokerError
from stoker.protocol.remote.keys import (
    public_text,
    read_clients,
    read_public,
    read_secret_file,
    secret_text,
)
from stoker.protocol.remote.shares import HostShare
from stoker.protocol.remote.tls import (
    MAX_CERTIFICATE_BYTES,
    Identity,
    check_certificate,
    client_context,
    daemon_context,
    make_identity,
)
from stoker.protocol.slot_layout import Output, Placed
from stoker.server.daemon import broker
from stoker.server.state import core_instructions as instructions
from stoker.server.state import events
from stoker.server.state.core import Core
from stoker.server.state.settings import Settings
from stoker.server.work.work_records import BuildResult, BuiltSource, Done

SLOT_BYTES: Final = 64
TOKEN: Final = b"t" * 16


@target
def host_share(data: bytes) -> bool:
    """The daemons in SEEK: the first batch that one of them makes is at its place or later."""
    try:
        seek = msgspec.msgpack.decode(data, type=messages.Seek)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return False

    def steps(epoch: int) -> int:
        return 1 + epoch % 5

    def read(seek: messages.Seek) -> None:
        share = HostShare(seek.hosts, seek.host)
        place = share.first(seek.epoch, min(seek.step, steps(seek.epoch)), steps)
        assert place >= (seek.epoch, min(seek.step, steps(seek.epoch)))
        assert place[1] < steps(place[0])
        assert share.owner(*place) == seek.host

    return accepts(read, seek)


class Slab:
    """A slab of one slot, as `Verifier` uses it."""

    def __init__(self) -> None:
        self._memory = np.arange(SLOT_BYTES, dtype=np.uint8)
        self.address, self.slot_bytes = self._memory.ctypes.data, SLOT_BYTES


@prepared
def slab() -> Slab:
    return Slab()


class Stream(NamedTuple):
    """What `Verifier` knows from OPENED."""

    stream: str = "0" * 32
    outputs: tuple[Output, ...] = (Output("x", "uint8", (8,)),)


@target
def verified(data: bytes) -> bool:
    """READYs of a run with `verify`: digests and chain. None passes whose bytes are others."""
    try:
        _, records = codec.decode_from_daemon(data)
    except StokerError:
        return False
    found = [record for record in records if isinstance(record, messages.Ready)]
    if not found or len(found) != len(records):
        return False
    placed = [Placed("x", "uint8", (2, 8), 0)]
    verifier = Verifier(Stream(), slab())  # type: ignore[arg-type]
    verifier.begin(found[0].epoch, found[0].step)

    def read(ready: messages.Ready) -> None:
        verifier.announced(ready)
        plain = msgspec.structs.replace(ready, slot=0, rows=2, outputs=placed)
        assert verifier.check(plain) == batch_of_rows(ready.digests)

    return all(accepts(read, ready) for ready in found)


class Client:
    """A session with a core, whose builds succeed and whose worker does nothing."""

    def __init__(self) -> None:
        self.core = Core(
            Settings(
                workers=1, memory_limit_bytes=2**20, datasets={"d": "/d"},
                pipelines={"p": "jobs:p"}, outstanding=2,
            )
        )  # fmt: skip
        self.core.start()
        self.do(events.WorkerUp(1.0, 1, 1))
        self.do(events.Greeted(1.0, b"peer", TOKEN, messages.Hello(1, 1, "fuzz")))
        self.do(events.LifelineUp(1.0, TOKEN))

    def do(self, event: events.Event) -> None:
        """Handle an event; builds and slabs are ready at once, chunks are done at once."""
        for one in self.core.handle(event):
            if isinstance(one, instructions.StartBuild):
                built = BuildResult(
                    one.request.build, "content:" + "0" * 32, 50, "0" * 32,
                    (Output("x", "uint8", (8,)),),
                    (BuiltSource("", "content:" + "0" * 32, 50, "0" * 32, b""),),
                )  # fmt: skip
                self.do(events.Built(1.0, built))
            elif isinstance(one, instructions.ReserveSlab | instructions.GrowSlab):
                self.do(events.SlabReserved(1.0, one.slab))
            elif isinstance(one, instructions.Assign):
                for work in one.work:
                    self.do(events.ChunkDone(1.0, 1, Done(work.claim, 0.01, 0)))


@target
def session(data: bytes) -> bool:
    """A message of a client that is attached: the daemon's state handles any content."""
    try:
        _, records = broker._decode(data)
    except StokerError:
        return False
    client = Client()
    for _ in range(2):  # the second time there is a stream, perhaps
        client.do(events.Received(1.0, TOKEN, tuple(records)))
    budget = client.core.counters()
    assert 0 <= budget["memory_used_bytes"] <= 2**20
    client.do(events.LifelineDown(2.0, TOKEN))
    left = client.core.counters()
    assert not any(left[name] for name in ("sessions", "groups", "memory_used_bytes", "builds"))
    return not client.core._context.counts.errors


# ---------------------------------------------------------------- keys


@target
def key(data: bytes) -> bool:
    """A public key as text."""
    return accepts(lambda text: read_public(text, "here"), data.decode("latin-1"), ConfigError)


def _private(name: str, data: bytes) -> Path:
    """Return a file with this content that no other user can read."""
    path = folder() / name
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
    return path


@target
def client_list(data: bytes) -> bool:
    """The list of the clients that a daemon lets in."""

    def read(path: Path) -> None:
        found = read_clients(path, "here")
        assert len(set(found.values())) == len(found)
        lines = [f"{public_text(key)} {name}\n" for key, name in found.items()]
        assert read_clients(_private("again", "".join(lines).encode()), "here") == found

    return accepts(read, _private("clients", data), ConfigError)


@target
def secret_file(data: bytes) -> bool:
    """The file with a secret key."""

    def read(path: Path) -> None:
        secret = read_secret_file(path, "here")
        again = _private("again", secret_text(secret).encode())
        assert read_secret_file(again, "here") == secret

    return accepts(read, _private("key", data), ConfigError)


@prepared
def identity() -> Identity:
    return make_identity("fuzz")


@target
def certificate(data: bytes) -> bool:
    """A certificate in HELLO or WELCOME: one that passes keeps no other client from TLS."""
    if not accepts(check_certificate, data):
        return False
    own = identity()
    if len(data) <= MAX_CERTIFICATE_BYTES:
        daemon_context(own, [own.certificate, data, data])
        client_context(own, data)
    return True
