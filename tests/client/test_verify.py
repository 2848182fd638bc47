"""`Loader(verify=True)`: what a daemon must send, and what a changed byte in the slab does."""

import contextlib
import ctypes
import time
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from fake_daemons import DEADLINE_S, FakeDaemon

from stoker.client import Connection, Loader
from stoker.protocol.chain import batch_of_rows, chain_on, chain_start
from stoker.protocol.errors import CorruptBatchError, ProtocolError
from stoker.protocol.messages import Open, Seek
from stoker.protocol.row_digests import RowDigests
from stoker.protocol.slot_layout import slot_layout


class Sealer:
    """Adds digests and chains to what a fake daemon announces."""

    def __init__(self, fake) -> None:
        self.fake = fake
        self.run = 0
        self.chain = b""
        self.sent: dict[tuple[int, int], tuple[str, str]] = {}
        self.change: Callable[[object], object] = lambda ready: ready

    def __call__(self, ready) -> list:
        layout = slot_layout(self.fake.outputs, self.fake.rows)
        slot = np.zeros(layout.slot_bytes, np.uint8)
        for placed in layout.outputs:
            data = self.fake.batch(ready.epoch, ready.step)[placed.name].tobytes()
            slot[placed.offset : placed.offset + len(data)] = np.frombuffer(data, np.uint8)
        digests = RowDigests(self.fake.outputs).of(slot, layout.outputs, 0, ready.rows)
        if ready.run != self.run:
            self.run = ready.run
            self.chain = chain_start(ready.stream, ready.epoch, ready.step)
        self.chain = chain_on(self.chain, ready.epoch, ready.step, batch_of_rows(digests))
        digest = batch_of_rows(digests).hex()
        self.sent[ready.epoch, ready.step] = digest, self.chain.hex()
        sealed = msgspec.structs.replace(ready, digests=digests, chain=self.chain)
        return [self.change(sealed)]


@pytest.fixture
def sealer(daemon) -> Sealer:
    daemon.alter_ready = made = Sealer(daemon)
    return made


def load(daemon, **more) -> Loader:
    given = {"pipeline": "train", "batch_size": 16, "device": "numpy", "prefetch": 2}
    return Loader(daemon.address, **{**given, "verify": True, **more})


def overwrite(loader: Loader, slot: int, offset: int) -> None:
    """Change one byte of a slot through the client's own map, as a stray pointer would."""
    slab = loader._connection.stream.slab
    address = slab.address + slot * slab.slot_bytes + offset
    ctypes.c_uint8.from_address(address).value ^= 1


def test_batches_carry_their_digests(daemon, sealer, same) -> None:
    with load(daemon) as loader:
        for _ in range(2):
            for batch in loader:
                same(daemon, batch, batch.epoch, batch.step)
                assert (batch.digest, batch.chain) == sealer.sent[batch.epoch, batch.step]
    assert len({digest for digest, _ in sealer.sent.values()}) == len(sealer.sent)
    assert [record.delivery.verify for record in daemon.of(Open)] == [True]


def test_the_chain_goes_on_after_a_reconnect_and_a_jump(daemon, sealer, folder) -> None:
    """It is that of the batches that the caller got, one after the other."""
    with load(daemon, connection=Connection(reconnect_s=20)) as loader:
        batches = iter(loader)
        found = [next(batches), next(batches)]
        daemon.close()
        with contextlib.closing(FakeDaemon(folder)) as other:
            other.alter_ready = Sealer(other)
            found += batches
            loader.set_epoch(3)
            found.append(next(iter(loader)))
    chain = chain_start(found[0].stream_id, 0, 0)
    for batch in found:
        chain = chain_on(chain, batch.epoch, batch.step, bytes.fromhex(batch.digest))
        assert batch.chain == chain.hex(), (batch.epoch, batch.step)
    assert [(b.epoch, b.step) for b in found] == [*((0, step) for step in range(5)), (3, 0)]


def test_a_changed_byte_names_its_row_and_the_batch_is_computed_again(daemon, sealer, same) -> None:
    with load(daemon) as loader:
        rows = iter(loader)
        same(daemon, next(rows), 0, 0)
        announced = loader._connection.delivery
        while not announced.is_there(0, 1):
            loader._connection.daemon_stream.session.receive(time.monotonic() + DEADLINE_S)
        place = announced._queue[0]
        image = next(placed for placed in place.outputs if placed.name == "image")
        overwrite(loader, place.slot, image.offset + 5 * 32 * 48 * 3 + 77)
        with pytest.raises(CorruptBatchError, match=r"row 5 of the batch of epoch 0, step 1 ") as e:
            next(rows)
        assert e.value.details == {"epoch": 0, "step": 1, "row": 5, "rows": 1, "slot": place.slot}
        same(daemon, next(rows), 0, 1)
        same(daemon, next(rows), 0, 2)
    assert [(s.epoch, s.step) for s in daemon.of(Seek)] == [(0, 0), (0, 1)]


def test_without_verify_nothing_is_compared(daemon, same) -> None:
    with load(daemon, verify=False) as loader:
        batch = next(iter(loader))
        same(daemon, batch, 0, 0)
    assert [record.delivery.verify for record in daemon.of(Open)] == [False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"digests": b"1" * 8}, "expected 8 bytes of digest for each of 16 rows, got 8"),
        ({"chain": b"1" * 16}, "step 0 does not follow the one before it: expected chain"),
        ({"chain": b""}, "does not follow"),
        ({"digests": b"1" * 128}, "does not follow"),
    ],
)
def test_false_announcements_are_errors_and_a_new_run_starts(
    daemon, sealer, same, change, message
) -> None:
    sealer.change = lambda ready: msgspec.structs.replace(ready, **change)
    with load(daemon) as loader:
        batches = iter(loader)
        with pytest.raises(ProtocolError, match=message):
            next(batches)
        daemon.do(lambda: setattr(sealer, "change", lambda ready: ready))
        same(daemon, next(batches), 0, 0)
