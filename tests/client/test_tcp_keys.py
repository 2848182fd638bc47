"""A Loader at `tcp://` with keys: the bytes of `ipc://` over TLS, and an error for each mistake."""

import codecs
import contextlib
import os
import re
import select
import signal
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import pytest
from keyed import OPTIONS, ROWS, greeted, keyed_daemon, make_key, served_with
from loading import grouped
from proxy import Proxy

from stoker.client import Connection, Loader
from stoker.client.remote.loader_keys import DAEMON_KEY_VARIABLE, KEY_VARIABLE
from stoker.protocol.digest import batch_digest, digest_parts
from stoker.protocol.errors import (
    AccessError,
    ConfigError,
    ConnectError,
    DaemonLostError,
    UsageError,
)
from stoker.protocol.messages import Attach, Error, Welcome
from stoker.protocol.remote.tcp import frame, tcp_address
from stoker.protocol.remote.tls import Identity, client_context, make_identity

DEADLINE_S = 10.0
"""`hello_deadline_s` of the daemon: a session that has not attached by then ends."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A daemon with keys that lets in alice, and keys of alice and mallory."""
    with keyed_daemon(tmp_path_factory.mktemp("keys")) as found:
        yield found


def digests(address: str, epochs: int = 2, **options: object) -> list[str]:
    with Loader(address, **grouped(**{**OPTIONS, **options})) as loader:
        return [
            batch_digest(digest_parts(batch), batch.epoch, batch.step)
            for _ in range(epochs)
            for batch in loader
        ]


def wait_for_log(daemon: daemons.Daemon, text: str) -> None:
    end = time.monotonic() + 30
    while text not in daemon.log.read_text():
        assert time.monotonic() < end, daemon.log.read_text()
        select.select((), (), (), 0.02)


@pytest.mark.parametrize(
    "options", [{}, {"rank": 1, "world_size": 3, "verify": True}, {"group": "sweep"}], ids=str
)
def test_keys_change_no_byte(served, options) -> None:
    assert digests(served.tcp, **served.keys, **options) == digests(served.ipc, **options)


def test_the_log_has_the_key_and_the_address_next_to_what_the_client_says(served) -> None:
    with Loader(served.tcp, **grouped(**OPTIONS, **served.keys, name="far run")):
        pass
    log = served.daemon.log.read_text()
    who = f'client="far run" host={socket.gethostname()} pid={os.getpid()} user='
    for event in ("client_greeted", "opened"):
        assert re.search(rf' {event} {who}\S+ known_from="127.0.0.1, key alice" ', log), log


def test_replay_travels_with_keys_too(served) -> None:
    with (
        Loader(served.ipc, **grouped(**OPTIONS)) as here,
        Loader(served.tcp, **grouped(**OPTIONS, **served.keys)) as far,
    ):
        expected, got = here.replay(3, 0), far.replay(3, 0)
    for one, other in zip(expected.outputs, got.outputs, strict=True):
        np.testing.assert_array_equal(one.array, other.array)


def test_keys_from_the_environment(served, monkeypatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, str(served.root / "alice.key"))
    monkeypatch.setenv(DAEMON_KEY_VARIABLE, str(served.root / "daemon.key.pub"))
    assert len(digests(served.tcp, 1)) == ROWS // 4
    assert len(digests(served.ipc, 1)) == ROWS // 4  # not used there


def marked(path: Path, data: bytes) -> Path:
    """Write a text with the byte order mark of Windows editors, for its owner alone."""
    path.write_bytes(codecs.BOM_UTF8 + data)
    path.chmod(0o600)
    return path


def test_keys_and_lists_with_a_byte_order_mark_are_read(served, tmp_path) -> None:
    secret = marked(tmp_path / "a.key", (served.root / "alice.key").read_bytes())
    public = marked(tmp_path / "d.pub", (served.root / "daemon.key.pub").read_bytes())
    odd = {*range(1, ROWS, 2)}
    lines = {
        "subset": "".join(f"{number}\r\n" for number in odd),
        "exclude": "".join(f"{number}\r\n" for number in range(0, ROWS, 2)),
        "weights": "0\r\n1\r\n" * (ROWS // 2),
    }
    for argument, text in lines.items():
        given = {argument: marked(tmp_path / argument, text.encode())}
        with Loader(
            served.tcp,
            **grouped(**OPTIONS, **given, connection=Connection(key=secret, daemon_key=public)),
        ) as loader:
            assert {int(number) for batch in loader for number in batch["index"]} <= odd
        (tmp_path / argument).write_bytes(text.encode("utf-16"))
        with pytest.raises(UsageError, match=f"{argument}.*UTF-16 .its byte order mark is ff fe"):
            Loader(
                served.tcp,
                **grouped(**OPTIONS, **given, connection=Connection(key=secret, daemon_key=public)),
            )
    secret.write_bytes((served.root / "alice.key").read_text().encode("utf-16"))
    with pytest.raises(ConfigError, match=r"a.key: expected text in UTF-8; make keys with: stoker"):
        Loader(
            served.tcp, **grouped(**OPTIONS, connection=Connection(key=secret, daemon_key=public))
        )


def test_nothing_readable_crosses_the_network(served) -> None:
    """A proxy in front of both ports sees no pixel, name or token in plain."""
    with Proxy(tcp_address(served.tcp)) as proxy:
        with Loader(proxy.address, **grouped(**OPTIONS, **served.keys)) as loader:
            batches = [np.array(batch.pixels) for batch in loader]
        seen = proxy.seen()
    assert len(seen) > sum(batch.nbytes for batch in batches)
    for batch in batches:
        assert batch.tobytes()[:64] not in seen
    for word in (b"hello", b"welcome", b"pixels", b"stoker.client", b"attach", b"carried"):
        assert word not in seen, word


# ---------------------------------------------------------------- keys that do not fit


def test_keys_for_a_daemon_without(served, tmp_path) -> None:
    with served_with(served.root, tmp_path / "d", "--insecure") as daemon:
        with pytest.raises(AccessError, match=r"has no keys|its key is not"):
            Loader(daemon.ready["tcp"], **grouped(**OPTIONS, **served.keys))
        assert len(digests(daemon.ready["tcp"], 1)) == ROWS // 4


def test_refused_keys_are_not_tried_again(served) -> None:
    """With `reconnect_s` a Loader waits for daemons, but not for one that refuses its key."""
    keys = {"key": served.root / "mallory.key", "daemon_key": served.public}
    with pytest.raises(AccessError):
        Loader(served.tcp, **OPTIONS, connection=Connection(**keys, reconnect_s=3600))
    assert f"client_not_in_list key={served.mallory}" in served.daemon.log.read_text()


@pytest.mark.parametrize(
    ("address", "given", "error", "message"),
    [
        ("tcp", ("mallory.key", "PUBLIC"), AccessError, "list of clients lacks MALLORY"),
        ("tcp", ("alice.key", "MALLORY"), AccessError, "its key is not MALLORY"),
        ("tcp", (None, None), AccessError, r"requires keys.*daemon_key="),
        ("tcp", ("alice.key", None), UsageError, r"together, got one of them; add daemon_key="),
        ("tcp", (None, "daemon.key.pub"), UsageError, r"together, got one of them; add key="),
        ("tcp", ("alice.key.pub", "daemon.key.pub"), UsageError, r"got a public one|chmod 600"),
        ("tcp", ("alice.key", "daemon.key"), UsageError, r"got a secret one; use the file"),
        ("tcp", ("alice.key", "alice.key.pub"), UsageError, r"got this client's own"),
        ("tcp", ("nothing", "daemon.key.pub"), UsageError, r"No such file.*stoker keygen"),
        ("tcp", ("alice.key", "clients2"), UsageError, r"got 2 lines"),
        ("ipc", ("alice.key", "PUBLIC"), UsageError, r"key=: keys work only with a daemon at tcp"),
        ("nobody", ("alice.key", "PUBLIC"), ConnectError, "no daemon listens"),
        ("data", (None, "PUBLIC"), UsageError, r"daemon_key=: keys work only with"),
    ],
    ids=str,
)
def test_keys_that_are_refused(served, address, given, error, message) -> None:
    """The own key is a file, that of the daemon a file or a text."""
    Path(served.root / "clients2").write_text(f"{served.alice} a\n{served.mallory} m\n")
    texts = {"PUBLIC": served.public, "MALLORY": served.mallory}
    pairs = zip(("key", "daemon_key"), given, strict=True)
    keys = {name: texts.get(v, served.root / v) for name, v in pairs if v is not None}
    nobody, data = "tcp://127.0.0.1:1", served.root / "data"
    where = {"tcp": served.tcp, "ipc": served.ipc, "nobody": nobody, "data": data}[address]
    with pytest.raises(error, match=message.replace("MALLORY", served.mallory)):
        Loader(where, **OPTIONS, connection=Connection(**keys))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_secret_that_others_can_read(served, tmp_path, mode) -> None:
    make_key(tmp_path / "a.key")
    os.chmod(tmp_path / "a.key", mode)
    connection = Connection(key=tmp_path / "a.key", daemon_key=served.public)
    with pytest.raises(ConfigError, match=r"no other user can read or write.*chmod 600"):
        Loader(served.tcp, **OPTIONS, connection=connection)


# ---------------------------------------------------------------- the daemon's side


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tcp=tcp://0.0.0.0:0"], r"expected keys.*add --key FILE and --clients FILE"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/daemon.key"], r"got --key alone; add --clients"),
        (["--tcp=tcp://127.0.0.1:0", "--clients={r}/clients"], r"got --clients alone; add --key"),
        (["--key={r}/daemon.key"], r"expected an address for other hosts with it"),
        (["--tcp=tcp://127.0.0.1:0", "--insecure", "--key={r}/daemon.key", "--clients={r}/clients"],
         r"either keys.*or no protection"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/daemon.key.pub", "--clients={r}/clients"],
         r"got a public one|chmod 600"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/daemon.key", "--clients={r}/alice.key"],
         r"line 1: expected a public key .* got a secret one"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/daemon.key", "--clients={r}/twice"],
         r"line 2: expected each key once, but that of 'b' is in line 1 too"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/daemon.key", "--clients={r}/typo"],
         r"typing error"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/daemon.key", "--clients={r}/nameless"],
         r"expected a public key and a name, got 1 words"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/daemon.key", "--clients={r}/open"], r"chmod go-w"),
        (["--tcp=tcp://127.0.0.1:0", "--key={r}/loose.key", "--clients={r}/clients"],
         r"no other user can read or write.*chmod 600"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_a_daemon_refuses_flags_and_files_that_are_wrong(served, tmp_path, flags, message) -> None:
    root = served.root
    (root / "twice").write_text(f"{served.alice} a\n{served.alice} b\n")
    typo = served.alice[:-6] + ("A" if served.alice[-6] != "A" else "B") + served.alice[-5:]
    (root / "typo").write_text(f"{typo} a\n")
    (root / "nameless").write_text(f"{served.alice}\n")
    (root / "open").write_text(f"{served.alice} a\n")
    (root / "open").chmod(0o666)
    (root / "loose.key").write_bytes((root / "daemon.key").read_bytes())
    (root / "loose.key").chmod(0o640)
    flags = [flag.format(r=root) for flag in flags]
    daemon = daemons.Daemon(tmp_path, f"--dataset=d={root}/data", *flags, warm=True)
    try:
        assert daemon.wait() != 0
        code, text, _ = daemon.ready["error"]
    finally:
        daemon.close()
    assert code == "config"
    assert re.search(message, text), text


def test_sighup_reads_the_list_again_and_ends_sessions_of_removed_keys(served, tmp_path) -> None:
    root, clients = served.root, tmp_path / "clients"
    marked(clients, f"{served.alice} alice\n".encode())
    key = marked(tmp_path / "daemon.key", (root / "daemon.key").read_bytes())
    flags = f"--key={key}", f"--clients={clients}"
    with served_with(root, tmp_path / "d", *flags) as daemon:
        tcp = daemon.ready["tcp"]
        mallory = {"key": root / "mallory.key", "daemon_key": served.public}
        with (
            Loader(tcp, **grouped(**OPTIONS, **served.keys)) as loader,
            Loader(daemon.address, **grouped(**OPTIONS)) as local,
        ):
            next(iter(loader))
            clients.write_text(f"{served.mallory}\n")  # without a name: the old list stays
            daemon.process.send_signal(signal.SIGHUP)
            wait_for_log(daemon, "clients_not_reread")
            assert len(list(loader)) == len(loader)
            clients.write_text(f"{served.mallory} mallory\n")
            daemon.process.send_signal(signal.SIGHUP)
            wait_for_log(daemon, "clients_reread clients=1")
            with pytest.raises(AccessError, match="removed this client's key"):
                [list(loader) for _ in range(10_000)]
            assert len(list(local)) == len(local)
        with pytest.raises(AccessError, match="list of clients lacks"):
            Loader(tcp, **grouped(**OPTIONS, **served.keys))
        assert len(digests(tcp, 1, **mallory)) == ROWS // 4


# ---------------------------------------------------------------- peers that lie


def carrier(served, context: ssl.SSLContext) -> ssl.SSLSocket:
    address = tcp_address(served.tcp)
    sock = socket.create_connection((address.host, address.carrier_port), 10)
    return context.wrap_socket(sock)


def refused(sock: ssl.SSLSocket) -> bytes:
    """The bytes that a peer reads until the daemon ends the connection."""
    parts = []
    with sock, contextlib.suppress(OSError):
        while part := sock.recv(2**16):
            parts.append(part)
    return b"".join(parts)


def test_the_token_of_another_session_with_its_own_certificate(served) -> None:
    """Two sessions of one client: each certificate is good for its own token alone."""
    with greeted(served) as (one, identity), greeted(served) as (other, _):
        context = client_context(identity, one.certificate)
        sock = carrier(served, context)
        sock.sendall(frame(Attach(other.token)))
        assert b"expected the certificate that the session sent with HELLO" in refused(sock)
        sock = carrier(served, context)
        sock.sendall(frame(Attach(one.token)))
        assert b"attached" in sock.recv(100)
        sock.close()


def test_a_token_works_once(served) -> None:
    with greeted(served) as (welcome, identity):
        context = client_context(identity, welcome.certificate)
        with carrier(served, context) as sock:
            sock.sendall(frame(Attach(welcome.token)))
            assert b"attached" in sock.recv(100)
            with carrier(served, context) as again:
                with contextlib.suppress(OSError):
                    again.sendall(frame(Attach(welcome.token)))
                assert b"attached" not in refused(again)


def test_a_hundred_sessions_at_once(served) -> None:
    """Each is accepted with its own certificate while those of all others wait, too.

    A session has 10 s to attach. On a busy machine greeting takes long: then the oldest ones attach
    meanwhile, so fewer wait at a time, and one that was too late is refused as such.
    """

    def attach(greeted_at: float, welcome: Welcome | Error, identity: Identity) -> bool:
        assert isinstance(welcome, Welcome), welcome
        try:
            with carrier(served, client_context(identity, welcome.certificate)) as sock:
                sock.sendall(frame(Attach(welcome.token)))
                answer = sock.recv(100)
        except ssl.SSLError as error:  # the daemon knows the certificate no longer
            answer = str(error).encode()
        late = time.monotonic() - greeted_at > DEADLINE_S
        refused = b"belongs to no session" in answer or b"UNKNOWN_CA" in answer
        assert b"attached" in answer or (late and refused), answer
        return b"attached" in answer

    waiting: deque[tuple[float, Welcome | Error, Identity]] = deque()
    with contextlib.ExitStack() as stack:
        attached = 0
        for _ in range(100):
            waiting.append((time.monotonic(), *stack.enter_context(greeted(served))))
            while time.monotonic() - waiting[0][0] > DEADLINE_S / 3:
                attached += attach(*waiting.popleft())
        while waiting:  # the newest one first, unless the oldest one has to
            old = time.monotonic() - waiting[0][0] > DEADLINE_S / 2
            attached += attach(*(waiting.popleft() if old else waiting.pop()))
        assert attached > 50


def test_a_certificate_that_no_session_sent(served) -> None:
    with greeted(served) as (welcome, _):
        context = client_context(make_identity("other"), welcome.certificate)
        with carrier(served, context) as sock:
            with contextlib.suppress(OSError):
                sock.sendall(frame(Attach(welcome.token)))
            assert refused(sock) == b""
        wait_for_log(served.daemon, "TLS: ")


def test_older_tls_is_refused(served) -> None:
    with greeted(served) as (welcome, identity):
        context = client_context(identity, welcome.certificate)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises((ssl.SSLError, ConnectionError)):
            carrier(served, context)


@pytest.mark.parametrize("data", [frame(Attach(b"w" * 16)), b"GET / HTTP/1.1\r\n\r\n", b"\x16"])
def test_plain_bytes_on_the_carrier(served, data) -> None:
    address = tcp_address(served.tcp)
    with Loader(served.tcp, **grouped(**OPTIONS, **served.keys)) as loader:
        batches = iter(loader)
        next(batches)
        with socket.create_connection((address.host, address.carrier_port), 10) as sock:
            sock.sendall(data)
            with contextlib.suppress(OSError):  # the daemon may be faster, and reset it
                sock.shutdown(socket.SHUT_WR)
                assert b"attached" not in sock.recv(2**16)
        assert len(list(batches)) == len(loader) - 1


@pytest.mark.parametrize("certificate", [b"", b"none", b"\x30\x03\x02\x01\x00"])
def test_a_hello_without_a_certificate(served, certificate) -> None:
    with greeted(served, certificate) as (answer, _):
        assert isinstance(answer, Error)
        assert "expected a certificate" in answer.message


def test_another_certificate_on_the_carrier_than_the_daemon_sent(served, monkeypatch) -> None:
    """Somebody else has the port of the carrier."""
    with (
        Proxy(tcp_address(served.tcp), make_identity("mallory")) as proxy,
        pytest.raises(AccessError, match="has another certificate than the daemon"),
    ):
        Loader(proxy.address, **grouped(**OPTIONS, **served.keys))


def test_a_killed_daemon_is_lost_at_once(served, tmp_path) -> None:
    flags = f"--key={served.root}/daemon.key", f"--clients={served.root}/clients"
    with (
        served_with(served.root, tmp_path / "d", *flags) as daemon,
        Loader(daemon.ready["tcp"], **grouped(**OPTIONS, **served.keys)) as loader,
    ):
        next(iter(loader))
        began = time.monotonic()
        daemon.stop(signal.SIGKILL)
        with pytest.raises(DaemonLostError, match="went away"):
            [list(loader) for _ in range(10)]
        assert time.monotonic() - began < 20
