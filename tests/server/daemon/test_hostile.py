"""Peers that break the rules: each gets a typed error, or the end; other sessions go on."""

import array
import contextlib
import os
import resource
import select
import socket
import subprocess
import sys

import msgpack
import pytest
import zmq

from stoker.protocol import codec, messages
from stoker.protocol.descriptors import send_packet
from stoker.protocol.errors import ProtocolError
from stoker.server.daemon import broker, connections, sidesocket


@pytest.fixture
def bystander(connect):
    """A well-behaved client; after the test it must still be served at once."""
    client = connect().hello().attach()
    client.open()
    client.send(messages.Seek(1, 0, 0), messages.Credit(1, 1))
    client.receive(messages.Ready)
    yield client
    client.send(messages.Credit(1, 1))
    assert client.receive(messages.Ready).step == 1


GARBAGE = [
    (b"", "expected a msgpack message: "),
    (b"\xc1", "expected a msgpack message: "),
    (b"\x93\x01", "expected a msgpack message: "),
    (b"\x91" * 2000, "expected a msgpack message: "),
    (b"\xdd\xff\xff\xff\xff", "expected a msgpack message: "),
    (b"\x80", "expected an envelope [version, token, records], got dict"),
    (b"\x93\x09\xc4\x00\x90", "expected wire version 1, got 9; use the same release of Stoker"),
    (b"\x93\x01\xc4\x03abc\x90", "expected a token of 0 or 16 bytes"),
    (b"\x93\x01\xc4\x00\xa3abc", "expected a list of at most 4096 records"),
    (b"\x93\x01\xc4\x00\x90", "expected HELLO alone as the first message of a connection"),
    (
        b"\x93\x01\xc4\x00\x91\x94\xa5hello\xff\x01\xa1x",
        "message out of bounds: Expected `int` >= 0 - at `$[0][1]`",
    ),
    (codec.encode(b"", [messages.AskStatus()]), "expected HELLO alone as the first message"),
    (
        codec.encode(b"t" * 16, [messages.AskStatus()]),
        "this token belongs to no session on this connection: the session ended, or the connection"
        " was lost; connect again with HELLO",
    ),
]


@pytest.mark.parametrize(("data", "message"), GARBAGE)
def test_garbage_gets_a_typed_error(connect, bystander, data, message):
    client = connect()
    client.dealer.send(data)
    error = client.receive(messages.Error)
    assert error.code in ("protocol", "version")
    assert error.message.startswith(message)
    client.hello().attach()  # and the same peer may still do it right


def test_refused_requests_cannot_fill_the_log(connect, bystander, open_record, caplog):
    client = connect().hello().attach()
    for _ in range(30):
        client.send(open_record(dataset="foto"))
        assert client.receive(messages.Error).code == "unknown_name"
    lines = [record for record in caplog.records if record.message == "request_refused"]
    assert len(lines) == 5
    assert lines[0].facts["dataset"] == "foto"


def test_a_message_may_come_in_several_frames_up_to_the_limit(connect, bystander):
    client = connect()
    data = codec.encode(b"", [messages.Hello(1, 1, "x")])
    client.dealer.send_multipart([data[:3], b"", data[3:]])
    client.receive(messages.Welcome)
    told = f"expected a message of at most {broker.MAX_FRAMES} frames and {broker.MAX_BYTES} bytes"
    for parts in ([b"a"] * (broker.MAX_FRAMES + 1), [bytes(broker.MAX_BYTES), b"a"]):
        client = connect()
        client.dealer.send_multipart(parts)
        assert client.receive(messages.Error).message == told
        client.hello()


def test_a_message_beyond_the_limit_ends_the_connection_alone(connect, bystander):
    client = connect()
    client.dealer.send(bytes(broker.MAX_BYTES + 1))
    client.hello()  # ZeroMQ has reconnected


BIG = 70_000
LARGE = [
    ([1, b"t" * 16, [[[]] * BIG]], "Expected `str`, got `array` - at `$[2][0][0]`"),
    (
        [1, b"t" * 16, [["release", [[0, 0]] * 4096]] * 9],
        "Expected `array` of length <= 1 - at `$[2]`",
    ),
    ([1, b"", [["open", *range(BIG)]]], "Expected `bytes` of length >= 16 - at `$[1]`"),
    ([{str(n): n for n in range(BIG)}], "Expected `array` of length 3, got 1"),
]


@pytest.mark.parametrize(("envelope", "message"), LARGE)
def test_large_garbage_is_refused_at_its_first_wrong_byte(connect, bystander, envelope, message):
    data = msgpack.packb(envelope)
    assert len(data) > broker.SMALL_BYTES
    client = connect()
    client.dealer.send(data)
    error = client.receive(messages.Error)
    start = "expected OPEN alone in a message of more than 65536 bytes: "
    assert error.message.startswith(start)
    assert message in error.message


def test_a_large_open_is_taken_and_one_of_another_version_is_not(connect, bystander, open_record):
    client = connect().hello().attach()
    client.open(graph=bytes(2**20), pipeline="")
    data = codec.encode(client.token, [open_record(graph=bytes(2**20), pipeline="")])
    client.dealer.send(b"\x93\x07" + data[2:])
    assert client.receive(messages.Error).message == "expected wire version 1, got 7"


@pytest.mark.parametrize("data", [msgpack.packb([[[[]] * 65_000]]), b"\x91" * 65_536])
def test_the_worst_small_messages_are_refused(data):
    assert len(data) <= broker.SMALL_BYTES
    with pytest.raises(ProtocolError):
        broker._decode(data)


def test_only_small_messages_are_decoded_before_their_types_are_known(monkeypatch):
    """An object for each byte: a large message would keep the loop busy for a second."""
    decoded = []
    monkeypatch.setattr(broker.codec, "decode_from_client", lambda data: decoded.append(len(data)))
    broker._decode(b"\x90" * broker.SMALL_BYTES)
    with pytest.raises(ProtocolError, match="expected OPEN alone in a message of more than 65536"):
        broker._decode(b"\x90" * (broker.SMALL_BYTES + 1))
    assert decoded == [broker.SMALL_BYTES]


def test_a_second_hello_is_refused(connect, bystander):
    client = connect().hello()
    client.send(messages.Hello(1, 1, "again"), token=b"")
    error = client.receive(messages.Error)
    assert error.message == "expected one HELLO per connection, got a second one"
    client.send(messages.Hello(1, 1, "again"))
    error = client.receive(messages.Error)
    assert (
        error.message == "expected HELLO only as the first record of a connection, without a token"
    )


def test_two_hellos_in_a_row_make_one_session(daemon, connect):
    client = connect()
    hello = codec.encode(b"", [messages.Hello(1, 1, "x")])
    client.dealer.send(hello)
    client.dealer.send(hello)
    kinds = {type(client.receive()), type(client.receive())}
    assert kinds == {messages.Welcome, messages.Error}
    assert daemon.counter("sessions") == 1


def test_the_token_of_another_connection_is_worth_nothing(connect, bystander):
    thief = connect()
    thief.token = bystander.token
    thief.send(messages.Release([(0, 0)]), messages.Close())
    assert "belongs to no session on this connection" in thief.receive(messages.Error).message


def test_a_client_of_another_wire_version_is_told(connect, bystander):
    client = connect()
    client.send(messages.Hello(7, 9, "from the future"))
    assert client.receive(messages.Error).code == "version"


# ------------------------------------------------------------------------------ the side socket


SIDE_GARBAGE = [
    (b"\xc1garbage", "expected a msgpack message: "),
    (codec.encode_packet(messages.Attached()), "expected Attach, got Attached"),
    (
        codec.encode_packet(messages.Attach(b"t" * 16)),
        "this token belongs to no session, or was used before; connect again with HELLO",
    ),
    (bytes(codec.MAX_PACKET_BYTES + 1), "expected one packet of at most 65536 bytes"),
]


@pytest.mark.parametrize(("data", "message"), SIDE_GARBAGE)
def test_garbage_on_the_side_socket_ends_that_connection(connect, bystander, data, message):
    client = connect().hello()
    send_packet(client.connect_side(), data)
    error, _ = client.packet()
    assert isinstance(error, messages.Error)
    assert error.message.startswith(message)
    assert client.packet() == (None, None)


def test_a_token_opens_one_lifeline_only(connect, bystander):
    client = connect()
    client.token = bystander.token
    send_packet(client.connect_side(), codec.encode_packet(messages.Attach(client.token)))
    assert "was used before" in client.packet()[0].message


@pytest.mark.parametrize("count", [1, 3])
def test_descriptors_from_a_client_are_refused_and_closed(connect, bystander, count):
    client = connect().hello()
    reading, writing = os.pipe()
    try:
        client.connect_side().sendmsg(
            [codec.encode_packet(messages.Attach(client.token))],
            [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [writing] * count))],
        )
        assert client.packet()[0].code == "protocol"
        os.close(writing)
        writing = -1
        assert select.select([reading], [], [], 20)[0]  # end of file: the daemon kept no copy
    finally:
        os.close(reading)
        if writing >= 0:
            os.close(writing)


def test_a_half_open_connection_that_says_nothing_is_dropped(connect, bystander, monkeypatch):
    monkeypatch.setattr(sidesocket, "ATTACH_DEADLINE_S", 0.2)
    client = connect()
    client.connect_side()
    error, _ = client.packet()
    assert error.message.startswith("expected Attach with a token within 0.2 s of connecting")
    assert client.packet() == (None, None)


def test_many_half_open_connections_lock_nobody_out(daemon, connect, bystander, monkeypatch):
    monkeypatch.setattr(daemon.daemon._side.side, "_most", 64)
    idle = []
    try:
        for _ in range(64 + 20):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            idle.append(sock)
            sock.settimeout(20)
            sock.connect(bystander.path + ".fd")
        connect().hello().attach().open()
        error = codec.decode_packet(idle[0].recv(65536))
        assert error.code == "try_again"
        assert error.message.startswith("more than 64 connections are waiting for Attach; connect")
        assert idle[0].recv(65536) == b""
        assert len(daemon.daemon._side.side._half_open) <= 64
    finally:
        for sock in idle:
            sock.close()


def test_connections_that_are_no_sessions_are_shut_down(
    daemon, connect, bystander, eventually, monkeypatch
):
    monkeypatch.setattr(connections, "SILENCE_S", 0.2)
    known = daemon.daemon._broker.connections
    mute, refused, ended = (socket.socket(socket.AF_UNIX) for _ in range(3))
    with mute, refused, ended:
        for sock in (mute, refused, ended):
            sock.settimeout(20)
            sock.connect(bystander.path)
        while mute.recv(4096):  # libzmq greets first; then it hangs up
            pass
    client = connect().hello().attach()
    client.send(messages.Close())
    assert client.closed_by_daemon()
    eventually(lambda: len(known) <= 2)  # the bystander, and the client that connects again


def test_reports_of_connections_that_one_turn_leaves_are_read_in_the_next(
    daemon, bystander, eventually, monkeypatch
):
    monkeypatch.setattr(connections, "_MAX_EVENTS", 1)
    known = daemon.daemon._broker.connections
    before = len(known)
    with contextlib.ExitStack() as stack:
        for _ in range(8):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(bystander.path)
        eventually(lambda: len(known) == before + 8)
    eventually(lambda: len(known) == before)


def test_many_idle_greetings_of_a_process_lock_nobody_out(start, connect):
    running = start(daemon__max_sessions=4)
    served = connect(running.address).hello().attach()
    script = (
        "import sys, zmq\nfrom stoker.protocol import codec, messages\ncontext = zmq.Context()\n"
        "peers = [context.socket(zmq.DEALER) for _ in range(6)]\n"
        "for peer in peers:\n"
        "    peer.connect(sys.argv[1])\n"
        "    peer.send(codec.encode(b'', [messages.Hello(1, 1, 'idle')]))\n"
        "    peer.recv()\n"
        "print('greeted', flush=True)\nsys.stdin.read()\ncontext.destroy(linger=0)\n"
    )
    command = [sys.executable, "-c", script, running.address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as idle:
        assert idle.stdout.readline() == b"greeted\n"
        newcomer = connect(running.address).hello().attach()
        newcomer.open()
        served.open()
        idle.stdin.close()


def test_a_client_that_speaks_on_its_lifeline_is_ended(daemon, connect, bystander, eventually):
    client = connect().hello().attach()
    client.side.send(b"hello?")
    assert client.closed_by_daemon()
    eventually(lambda: daemon.counter("sessions") == 1)


def test_a_client_that_does_not_read_its_lifeline_is_dropped(
    daemon, connect, bystander, open_record, eventually
):
    client = connect().hello().attach()
    lifeline = daemon.daemon._side.side._lifelines[client.token]
    with contextlib.suppress(BlockingIOError):
        while True:
            lifeline.send(b"x" * 1000)  # fill it up as unread slabs would
    client.send(open_record())
    eventually(lambda: daemon.counter("sessions") == 1)


def test_a_client_that_never_reads_its_messages_is_dropped(daemon, connect, bystander, eventually):
    client = connect()
    client.dealer.setsockopt(zmq.RCVHWM, 1)
    client.hello().attach()
    while daemon.counter("sessions") == 2:
        for _ in range(64):
            if client.dealer.poll(0, zmq.POLLOUT):
                client.send(*[messages.AskStatus()] * 16)
    assert client.closed_by_daemon()


def test_another_user_is_refused(daemon, connect, bystander, monkeypatch):
    monkeypatch.setattr(sidesocket, "peer_credentials", lambda _: (1, 4242, 4242))
    client = connect().hello()
    client.connect_side()
    error, _ = client.packet()
    assert error.code == "usage"
    assert error.message == (
        "user 4242 may not use this daemon: only its own user, root and members of"
        " daemon.socket_group may; join that group, or set it"
    )
    assert daemon.counter("refused_connections_total") == 1


@pytest.fixture
def supplementary():
    """A group that this process is a supplementary member of."""
    before = os.getgroups()
    if not before and os.geteuid() != 0:
        pytest.skip("this user is in no supplementary group and may not change that")
    if os.geteuid() == 0:
        os.setgroups([4711])
    yield os.getgroups()[0]
    if os.geteuid() == 0:
        os.setgroups(before)


@pytest.mark.parametrize("primary", [False, True])
def test_a_member_of_the_socket_group_is_let_in(
    start, connect, folder, monkeypatch, supplementary, primary
):
    mine = os.getegid() if primary else supplementary
    running = start(daemon__socket_group=str(mine), daemon__address=f"ipc://{folder}/g/s.sock")
    client = connect(running.address).hello()
    monkeypatch.setattr(
        sidesocket, "peer_credentials", lambda _: (1, 4242, mine if primary else 4242)
    )
    client.attach()
    for suffix in ("", ".fd"):
        found = os.stat(f"{folder}/g/s.sock{suffix}")
        assert found.st_mode & 0o777 == 0o660
        assert found.st_gid == mine
    assert os.stat(folder / "g").st_mode & 0o777 == 0o750


def test_running_out_of_descriptors_stops_nothing(daemon, connect, bystander):
    """The listener is left alone until the next tick instead of spinning."""
    client = connect().hello()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    side = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    client.side = side
    side.settimeout(20)
    used = max(int(name) for name in os.listdir("/proc/self/fd"))
    fillers = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 8, hard))
    try:
        with contextlib.suppress(OSError):
            while True:
                fillers.append(os.dup(0))
        side.connect(client.path + ".fd")
        assert not select.select([side], [], [], 0.6)[0]  # two ticks in vain
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in fillers:
            os.close(descriptor)
    turns = daemon.counter("loop_turns_total")
    send_packet(side, codec.encode_packet(messages.Attach(client.token)))
    assert isinstance(client.packet()[0], messages.Attached)
    assert daemon.counter("loop_turns_total") < turns + 200
