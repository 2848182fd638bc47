"""A daemon with keys at `tcp://`, keys of two clients, and a peer that greets it by hand."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import daemons
import numpy as np
import zmq
from zmq.utils import z85

from stoker.client import Connection
from stoker.client.remote.loader_keys import resolve_keys
from stoker.dataset import schema, write
from stoker.protocol import version
from stoker.protocol.codec import decode_from_daemon, encode
from stoker.protocol.messages import Error, Hello, Welcome
from stoker.protocol.remote.keys import public_text, secret_text
from stoker.protocol.remote.tls import Identity, make_identity

PIPELINES = Path(__file__).parent.parent / "client"
ROWS = 40
OPTIONS = {"dataset": "data", "pipeline": "plain", "device": "numpy", "seed": 5, "batch_size": 4}


def make_key(path: Path) -> str:
    """Write a key as `stoker keygen` does; return the public one as text."""
    public, secret = map(z85.decode, zmq.curve_keypair())
    path.write_text(secret_text(secret) + "\n")
    path.chmod(0o600)
    Path(f"{path}.pub").write_text(f"{public_text(public)} {path.stem}\n")
    return public_text(public)


@contextlib.contextmanager
def served_with(root: Path, folder: Path, *flags: str) -> Iterator[daemons.Daemon]:
    folder.mkdir(mode=0o700)
    daemon = daemons.Daemon(
        folder, "--tcp=tcp://127.0.0.1:0", f"--dataset=data={root}/data",
        f"--python-path={PIPELINES}", "--pipeline=plain=client_pipelines:tensors", "--workers=1",
        *flags, warm=True,
    )  # fmt: skip
    try:
        assert "tcp" in (daemon.ready or {}), daemon.log.read_text()
        yield daemon
        assert "Traceback" not in daemon.log.read_text(), daemon.log.read_text()
    finally:
        daemon.close()


@contextlib.contextmanager
def keyed_daemon(root: Path) -> Iterator[SimpleNamespace]:
    """A daemon with keys that lets in alice, and keys of alice and mallory."""
    values = np.random.default_rng(3).integers(0, 255, (ROWS, 300, 300), np.uint8)
    rows = [{"pixels": value, "label": number % 3} for number, value in enumerate(values)]
    write(root / "data", [schema.array("pixels", "uint8", (300, 300)), schema.label()], rows)
    daemon_key = make_key(root / "daemon.key")
    alice = make_key(root / "alice.key")
    mallory = make_key(root / "mallory.key")
    (root / "clients").write_text(f"# those who may train\n{alice} alice  # until May\n\n")
    flags = f"--key={root}/daemon.key", f"--clients={root}/clients"
    with served_with(root, root / "d", *flags) as daemon:
        yield SimpleNamespace(
            ipc=daemon.address, tcp=daemon.ready["tcp"], daemon=daemon, root=root,
            alice=alice, mallory=mallory, public=daemon_key,
            keys={"connection": Connection(key=root / "alice.key", daemon_key=daemon_key)},
        )  # fmt: skip
        assert daemon.stop() == 0, daemon.log.read_text()


@contextlib.contextmanager
def greeted(served, certificate: bytes | None = None) -> Iterator[tuple[Welcome | Error, Identity]]:
    """HELLO with alice's key and some certificate: the answer, and the identity."""
    identity = make_identity("test")
    sent = identity.certificate if certificate is None else certificate
    options = served.keys["connection"]
    keys = resolve_keys(served.tcp, options.key, options.daemon_key)
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        dealer.linger = 0
        dealer.setsockopt(zmq.CURVE_SERVERKEY, keys.daemon)
        dealer.setsockopt(zmq.CURVE_SECRETKEY, keys.secret)
        dealer.setsockopt(zmq.CURVE_PUBLICKEY, keys.public)
        dealer.connect(served.tcp)
        dealer.send(encode(b"", [Hello(version.WIRE, version.WIRE, "test", sent)]))
        assert dealer.poll(30_000)
        (answer,) = decode_from_daemon(dealer.recv())[1]
        yield answer, identity


def limited(served: SimpleNamespace, **limits: float) -> Connection:
    """The keys of alice, with time limits."""
    return dataclasses.replace(served.keys["connection"], **limits)
