"""`stoker keygen`: make a key for a daemon or a client on another host."""

import os
from pathlib import Path
from typing import Annotated

import typer

from stoker.protocol.errors import UsageError
from stoker.protocol.remote.keys import PUBLIC_SUFFIX, public_text, secret_text


def keygen(
    file: Annotated[
        Path, typer.Argument(help="File for the secret key; the public key goes to FILE.pub.")
    ],
    name: Annotated[
        str | None, typer.Option(help="Name in lists of clients; by default that of the file.")
    ] = None,
) -> None:
    """Make a key for a daemon or a client on another host.

    Examples: `stoker keygen daemon.key`, `stoker keygen node3.key --name node3`.
    """
    import zmq  # noqa: PLC0415 - no other part of this command needs it
    from zmq.utils import z85  # noqa: PLC0415

    name = file.stem if name is None else name
    if not name.isprintable() or len(name.split()) != 1 or "#" in name:
        raise UsageError(f"--name {name!r}: expected one word without '#'")
    public, secret = map(z85.decode, zmq.curve_keypair())
    line = f"{public_text(public)} {name}\n"
    _write(Path(f"{file}{PUBLIC_SUFFIX}"), line, 0o644)
    try:
        _write(file, f"# secret key of {name}; public key: {line}{secret_text(secret)}\n", 0o600)
    except BaseException:
        os.unlink(f"{file}{PUBLIC_SUFFIX}")
        raise
    typer.echo(f"secret key: {file}\npublic key: {file}{PUBLIC_SUFFIX}")
    typer.echo(line, nl=False)


def _write(path: Path, text: str, mode: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except FileExistsError:
        raise UsageError(
            f"{path} exists, and a key that is replaced cannot be made again; choose another file,"
            " or remove it",
            path=str(path),
        ) from None
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, mode)
            file.write(text)
    except BaseException:
        os.unlink(path)  # an empty file would keep the next try from making the key
        raise
