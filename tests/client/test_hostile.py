"""Daemons that are absent, silent, dying or wrong: one typed error each, in time, nothing left."""

import os
import struct

import msgpack
import msgspec
import pytest
import zmq
from loading import load

from stoker.protocol import messages as m
from stoker.protocol.codec import encode, encode_packet
from stoker.protocol.descriptors import receive_packet, send_packet
from stoker.protocol.draw_records import Drawn, DrawnField
from stoker.protocol.errors import (
    BuildError,
    ConnectError,
    DaemonLostError,
    PeerError,
    ProtocolError,
    ResourceError,
    SampleError,
    StokerError,
    UsageError,
    VersionError,
)
from stoker.protocol.slot_layout import Output

FOREVER_S = 3600.0


# ---------------------------------------------------------------- opening


def hello_by(answer):
    """Let a daemon answer HELLO by something else."""
    return lambda daemon: setattr(daemon, "_hello", lambda record: answer(daemon))


def dies_at(name):
    """Let a daemon end while it is asked."""
    return lambda d: setattr(d, name, lambda record: setattr(d, "_running", False))


@pytest.mark.parametrize(
    ("alter", "options", "error", "message"),
    [
        (lambda d: d.mute.add(m.Hello), {"connect_timeout_s": 0.1}, ConnectError,
         r"did not answer within 0\.1 s"),
        (lambda d: d.mute.add(m.Attach), {"connect_timeout_s": 0.1}, ConnectError,
         r"did not answer within 0\.1 s"),
        (lambda d: d.mute.add(m.Open), {"timeout_s": 0.1}, PeerError,
         "is there but did not answer in time"),
        (hello_by(lambda d: d._send(m.Error(0, "resource", "64 sessions", {}))), {}, ResourceError,
         "64 sessions"),
        (hello_by(lambda d: d._router.send_multipart([d._peer, b"one", b"two"])), {}, ProtocolError,
         "expected messages of one frame"),
        (lambda d: setattr(d, "wire", 2), {}, VersionError,
         "expected wire version 1, got 2; use the same release"),
        (lambda d: vars(d).update(chosen=2, spare=-2), {}, ProtocolError,
         "expected fewer batches to prefetch than the 2 slots"),
        (dies_at("_hello"), {}, ConnectError, "closed the connection"),
        (dies_at("_open"), {}, DaemonLostError, "closed the connection"),
    ],
)  # fmt: skip
def test_a_daemon_that_does_not_open(daemon, alter, options, error, message: str) -> None:
    daemon.mute = set()
    alter(daemon)
    with pytest.raises(error, match=message):
        load(daemon, **options)
    if daemon.mute == {m.Open}:
        daemon.wait_for(lambda: daemon.ended == 1)


def test_batches_never_come(daemon) -> None:
    daemon.alter_ready = lambda ready: []
    with load(daemon, timeout_s=0.1) as loader:
        with pytest.raises(PeerError, match="did not answer in time"):
            next(iter(loader))
        assert loader.state_dict()["step"] == 0


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "error",
    [
        BuildError("train.py:7: color_jitter: a mask has no rule", op="color_jitter"),
        ResourceError("needed 9 GiB, allowed 4 GiB", needed_bytes=9, allowed_bytes=4),
        UsageError("no pipeline 'train'; there are: 'val'"),
    ],
)
def test_a_refusal_is_raised_as_the_daemons_own_error(daemon, error: StokerError) -> None:
    daemon.answer_open = lambda record: [m.Error(record.request, *error.to_record())]
    with pytest.raises(type(error)) as caught:
        load(daemon)
    assert type(caught.value) is type(error)
    assert caught.value.to_record() == error.to_record()
    daemon.wait_for(lambda: daemon.ended == 1)


def test_the_side_socket_refuses(daemon) -> None:
    def refuse(side, poller):
        receive_packet(side)
        daemon.received.append(m.Attach(b"x" * 16))
        send_packet(side, encode_packet(m.Error(0, "usage", "user 7 may not", {"user": 7})))
        poller.unregister(side.fileno())
        daemon._sides.remove(side)
        side.close()

    daemon._read_side = refuse
    with pytest.raises(UsageError, match="user 7 may not"):
        load(daemon)


def test_a_stream_that_stops_delivers_what_came_before(daemon, same) -> None:
    """The error comes in its turn; asking again asks the daemon again."""
    error = SampleError("photos, sample 17, field image: truncated", dataset="photos", id=17)

    def alter(ready: m.Ready) -> list[m.Record]:
        if ready.step < 2:
            return [ready]
        daemon._credits = 0
        return [m.Error(0, *error.to_record(), ready.run)]

    daemon.alter_ready = alter
    with load(daemon) as loader:
        batches = iter(loader)
        for step in range(2):
            same(daemon, next(batches), 0, step)
        for _ in range(2):
            with pytest.raises(SampleError, match="sample 17") as caught:
                next(batches)
            assert caught.value.details == {"dataset": "photos", "id": 17}
            assert loader.state_dict()["step"] == 2
        daemon.alter_ready = lambda ready: [ready]
        loader.skip(1)
        same(daemon, next(batches), 0, 3)
        assert [record.step for record in daemon.of(m.Seek)] == [0, 2, 3]


# ---------------------------------------------------------------- death


def test_the_daemon_dies_in_mid_epoch(make_daemon, same) -> None:
    daemon = make_daemon(steps=50)
    with load(daemon) as loader:
        batches = iter(loader)
        kept = next(batches)
        daemon.die()
        announced = []
        with pytest.raises(DaemonLostError) as caught:
            announced.extend(batches)
        for step, batch in enumerate(announced, start=1):
            same(daemon, batch, 0, step)
        message = str(caught.value)
        assert f"the daemon at {daemon.address} went away" in message
        assert "make a new Loader and give it the last state_dict()" in message
        state = loader.state_dict()
        assert state["step"] == loader.statistics().delivered
        same(daemon, kept, 0, 0)
        with pytest.raises(DaemonLostError):
            next(batches)
        with pytest.raises(DaemonLostError):
            next(iter(loader))


def test_goodbye_gives_the_reason(make_daemon) -> None:
    daemon = make_daemon(steps=50)
    with load(daemon) as loader:
        batches = iter(loader)
        next(batches)
        daemon.polite = True
        daemon.say(m.Bye("SIGTERM"))
        daemon.die()
        with pytest.raises(DaemonLostError, match="it shut down: SIGTERM"):
            list(batches)


def test_goodbye_alone_is_enough(daemon) -> None:
    daemon.alter_ready = lambda ready: []
    with load(daemon) as loader:
        batches = iter(loader)
        daemon.say(m.Bye("SIGTERM"))
        with pytest.raises(DaemonLostError, match="it shut down: SIGTERM"):
            next(batches)


def test_errors_behind_goodbye_are_no_news(daemon) -> None:
    """The daemon knows the session no more: it refuses what was on its way to it."""
    daemon.alter_ready = lambda ready: []
    refusal = ProtocolError("this token names no session")
    with load(daemon) as loader:
        batches = iter(loader)
        daemon.say(m.Bye("SIGTERM"), m.Error(0, *refusal.to_record()))
        with pytest.raises(DaemonLostError, match="it shut down: SIGTERM"):
            next(batches)


def test_an_error_that_ended_the_session_is_raised_also_if_it_is_read_late(daemon) -> None:
    """The end of the side socket is there before the error is looked at."""
    daemon.alter_ready = lambda ready: []
    with load(daemon) as loader:
        batches = iter(loader)
        daemon.polite = True
        daemon.say(m.Error(0, *ResourceError("no memory for the other slots").to_record()))
        daemon.die()
        with pytest.raises(ResourceError, match="no memory for the other slots"):
            next(batches)


# ---------------------------------------------------------------- wrong words


def change(**fields):
    return lambda ready: [msgspec.structs.replace(ready, **fields)]


def place(ready: m.Ready, **fields) -> list[m.Record]:
    first = msgspec.structs.replace(ready.outputs[0], **fields)
    return [msgspec.structs.replace(ready, outputs=[first, *ready.outputs[1:]])]


WRONG = {
    "order": (change(step=3), r"expected the batch of \(epoch, step\) \(0, 0\).*\(0, 3\)"),
    "epoch": (change(epoch=1), r"expected the batch of \(epoch, step\) \(0, 0\).*\(1, 0\)"),
    "stream": (change(stream="0" * 32), "expected a batch of stream .* got one of 0000"),
    "slab": (change(slab=9), "expected slots 0 to 3 of slab 3, got slot 0 of slab 9"),
    "slot": (change(slot=7), "expected slots 0 to 3 of slab 3, got slot 7 of slab 3"),
    "outputs": (change(outputs=[]), r"expected the outputs \['image', .*\], got \[\]"),
    "rows": (change(rows=15), "expected 15 rows of a known dtype, got uint8"),
    "dtype": (lambda ready: place(ready, dtype="object"), "known dtype, got object"),
    "shape": (
        lambda ready: place(ready, shape=(16, 10**6)),
        r"'image': expected rows of uint8 \(32, 48, 3\), .* sides \(\) .* got uint8 \(1000000,\)",
    ),
    "a shorter row": (
        lambda ready: place(ready, shape=(16, 31, 48, 3)),
        r"got uint8 \(31, 48, 3\)",
    ),
    "offset": (lambda ready: place(ready, offset=2**20), "got 1048576 to 1122304"),
    "alignment": (lambda ready: place(ready, offset=8), "a multiple of 64.*got 8 to "),
    "generation": (change(generation=1), "expected a generation above 1, got 1"),
    "crashed": (change(crashed=[83]), "expected ids of crashed samples below 83, got"),
    "late": (lambda ready: [ready, ready], r"expected the batch of .* \(0, 1\)"),
    "garbage": (lambda ready: [b"\xc1 no message"], "expected a msgpack message"),
    "truncated": (lambda ready: [encode(b"t" * 16, [ready])[:-3]], "expected a msgpack message"),
    "kind": (
        lambda ready: [m.Welcome(wire=1, token=b"t" * 16, daemon="x")],
        "unexpected record Welcome in an open stream",
    ),
    "session": (lambda ready: [m.Error(0, "protocol", "SEEK twice", {})], "SEEK twice"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_announcements_are_refused(daemon, same, what: str) -> None:
    daemon.alter_ready, expected = WRONG[what]
    with load(daemon, prefetch=1, timeout_s=60.0) as loader:
        batches = iter(loader)
        with pytest.raises(ProtocolError, match=expected):
            list(batches)
        # The session is not lost: a daemon that comes to its senses is asked again.
        daemon.do(lambda: setattr(daemon, "alter_ready", lambda ready: [ready]))
        step = loader.state_dict()["step"]
        loader._connection.delivery._whole = False
        same(daemon, next(batches), 0, step)


def test_a_slot_that_is_leased_is_announced_again(daemon) -> None:
    def alter(ready: m.Ready) -> list[m.Record]:
        return [msgspec.structs.replace(ready, slot=0, generation=ready.step + 1)]

    daemon.alter_ready = alter
    with load(daemon, prefetch=1) as loader:
        batches = iter(loader)
        kept = next(batches)
        with pytest.raises(ProtocolError, match="announced slot 0, which is still leased"):
            next(batches)
        assert kept.step == 0


def test_more_batches_than_credits(daemon) -> None:
    def alter(ready: m.Ready) -> list[bytes]:
        following = msgspec.structs.replace(ready, step=ready.step + 1, slot=2)
        return [encode(b"t" * 16, [ready, following])]

    daemon.alter_ready = alter
    with (
        load(daemon, prefetch=1) as loader,
        pytest.raises(ProtocolError, match="announced a batch without a credit"),
    ):
        next(iter(loader))


def test_announcements_of_an_earlier_run_are_void_and_given_back(daemon, same) -> None:
    with load(daemon) as loader:
        next(iter(loader))
        loader.set_epoch(5)
        batches = iter(loader)
        for step in range(5):
            same(daemon, next(batches), 5, step)
        daemon.wait_for(lambda: len([s for r in daemon.of(m.Release) for s in r.slots]) >= 4)


def test_unknown_trailing_fields_are_ignored(daemon, same) -> None:
    def alter(ready: m.Ready) -> list[bytes]:
        wire, token, (record,) = msgpack.unpackb(encode(b"t" * 16, [ready]))
        return [msgpack.packb([wire, token, [[*record, "new", {"x": 1}]], "newer"])]

    daemon.alter_ready = alter
    with load(daemon) as loader:
        for step, batch in enumerate(loader):
            same(daemon, batch, 0, step)


def opened_but(daemon, **fields):
    """Open as usual, then say something else of it."""
    original = daemon._send

    def send(*records):
        changed = [
            msgspec.structs.replace(record, **fields) if isinstance(record, m.Opened) else record
            for record in records
        ]
        original(*changed)

    daemon._send = send


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"slots": 9}, "expected the same slab in OPENED and SLAB"),
        ({"stream": "1" * 32}, "but the daemon opened 1111"),
        ({"spec": {"seed": -1}}, "the daemon opened an impossible stream"),
        ({"rows": 4000}, "expected at least 2 slots of"),
        ({"request": 2}, "expected OPENED for request 1, got one for 2"),
    ],
)
def test_an_opening_that_contradicts_itself(daemon, fields, expected: str) -> None:
    opened_but(daemon, **fields)
    with pytest.raises(ProtocolError, match=expected):
        load(daemon)
    daemon.wait_for(lambda: daemon.ended == 1)


def test_unexpected_packets_on_the_side_socket(daemon) -> None:
    """A descriptor that was not requested is closed; the leak fixture would see it."""
    with load(daemon) as loader:
        batches = iter(loader)
        reader, writer = os.pipe()
        daemon.alter_ready = lambda ready: []
        daemon.do(lambda: send_packet(daemon._sides[0], encode_packet(m.Attached()), reader))
        os.close(reader)
        with pytest.raises(ProtocolError, match="unexpected record Attached on the side socket"):
            next(batches)
        with pytest.raises(BrokenPipeError):
            os.write(writer, b".")
        os.close(writer)


def test_a_daemon_that_does_not_read(daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    with load(daemon) as loader:
        batches = iter(loader)
        session = loader._connection.delivery._session

        class Full:
            def send(self, *args):
                raise zmq.Again

            def __getattr__(self, name):
                return getattr(dealer, name)

        dealer, session._dealer = session._dealer, Full()
        with pytest.raises(PeerError, match="does not read its messages"):
            next(batches)
        session._dealer = dealer
        assert next(batches).step == 0


# ---------------------------------------------------------------- replays and draw records


def memory_of(data: bytes) -> int:
    memory = os.memfd_create("fake-replay", os.MFD_CLOEXEC)
    os.pwrite(memory, data, 0)
    return memory


def replayed(request: int, data: bytes) -> tuple[m.Record, int]:
    return m.Replayed(request, len(data)), memory_of(data)


def with_array(array: list[object]) -> bytes:
    """A replay with one field and 64 bytes of arrays."""
    value = ["image", "image", 0, None, array]
    head = msgpack.packb(["0" * 32, 0, 3, 0, 0, 0, [value], [], []])
    data = struct.pack("<Q", len(head)) + head
    return data + bytes(-len(data) % 64 + 64)


LONG_HEAD = struct.pack("<Q", 2**22 + 1) + bytes(2**22 + 1)


def readable_end() -> int:
    reader, writer = os.pipe()
    os.close(writer)
    return reader


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda r: (m.Replayed(r, 99), memory_of(b"abc")), "expected a replay of 99 bytes, got 3"),
        (lambda r: (m.Replayed(r, 9), memory_of(bytes(9))), "expected a replay"),
        (lambda r: (m.Replayed(r, 8), memory_of(b"\xff" * 8)), "cannot have a head of"),
        (
            lambda r: replayed(r, struct.pack("<Q", 2**22 + 1) + bytes(2**22 + 1)),
            "cannot have a head",
        ),
        (lambda r: replayed(r, with_array(["object", [1], 0])), r"expected an array as \[dtype"),
        (lambda r: replayed(r, with_array(["uint8", [65], 0])), "within 64 bytes, got 0 to 65"),
        (lambda r: replayed(r, with_array(["uint8", [1], 64])), "within 64 bytes, got 64 to 65"),
        (lambda r: (m.Replayed(r, 9), readable_end()), "the replay's memory cannot be read"),
        (lambda r: (m.Replayed(r, 9), None), "unexpected record Replayed on the side socket"),
    ],
)
def test_a_replay_that_is_none_breaks_the_protocol(daemon, answer, message: str) -> None:
    daemon.answer_replay = lambda record: answer(record.request)
    with load(daemon) as loader, pytest.raises(ProtocolError, match=message):
        loader.replay(3, 0)
    (asked,) = daemon.of(m.AskReplay)
    assert (asked.id, asked.epoch, asked.visit, asked.view) == (3, 0, 0, 0)


def test_a_replay_that_nobody_asked_for_is_closed_unread(daemon) -> None:
    daemon.answer_replay = lambda record: (
        m.Replayed(record.request + 1, 9),
        memory_of(bytes(9)),
    )
    with load(daemon, timeout_s=0.1) as loader, pytest.raises(PeerError, match="in time"):
        loader.replay(3, 0)


def test_a_late_refusal_of_a_replay_disturbs_no_delivery(daemon, same) -> None:
    with load(daemon, timeout_s=0.1, device="numpy") as loader:
        with pytest.raises(PeerError, match="in time"):
            loader.replay(3, 0)
        loader._connection._timeout_s = FOREVER_S
        (asked,) = daemon.of(m.AskReplay)
        batches = iter(loader)
        same(daemon, next(batches), 0, 0)
        daemon.say(m.Error(asked.request, "sample", "late", {}))
        same(daemon, next(batches), 0, 1)


@pytest.mark.parametrize(
    ("name", "made", "message"),
    [
        ("other", 0, "expected an output 'params' of bytes for each row, got None"),
        ("params", 7, "crop ends at byte 8, but a row has only 7 bytes"),
    ],
)
def test_draw_records_that_cannot_be_break_the_protocol(
    daemon, name: str, made: int, message: str
) -> None:
    daemon.outputs = (*daemon.outputs, Output(name, "uint8", (7,), "params"))
    daemon.drawn = [Drawn("crop", "random_crop", made, ())]
    with load(daemon, params=True) as loader, pytest.raises(ProtocolError, match=message):
        next(iter(loader))


def test_draw_records_of_a_daemon(daemon) -> None:
    daemon.outputs = (*daemon.outputs, Output("params", "uint8", (7,), "params"))
    daemon.drawn = [Drawn("crop", "random_crop", 2, (DrawnField("top", "int32", (), 3),))]
    with load(daemon, params=True, device="numpy") as loader:
        batch = next(iter(loader))
        expected = daemon.batch(0, 0)["params"]
        assert batch.params["crop"]["top"].tobytes() == expected[:, 3:].tobytes()
        assert "params" not in batch
