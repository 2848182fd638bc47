"""Keys of daemons and clients as text and files: pure parsing, no cryptography.

A CURVE key (Curve25519) has 32 bytes. As text it is `stoker-public-` or `stoker-secret-` and 48
characters of base64url: the key and the first 4 bytes of the SHA-256 of prefix and key. So a
mistyped key, and a secret one in the place of a public one, are found before anything is sent.

`stoker keygen FILE` writes the secret key to FILE and the public key, with a name, to FILE.pub. The
list of clients has lines like that of FILE.pub. In all files, empty lines and what follows `#` are
ignored.
"""

import base64
import binascii
import hashlib
import os
import stat
from collections.abc import Iterator
from typing import Final

from stoker.protocol.errors import ConfigError
from stoker.protocol.files.text import EncodingError, decode_text

KEY_BYTES: Final = 32
LEAST_TOKEN: Final = 16
"""Characters of the shortest token."""
MAX_FILE_BYTES: Final = 2**20
PUBLIC: Final = "stoker-public-"
SECRET: Final = "stoker-secret-"
PUBLIC_SUFFIX: Final = ".pub"
_CHECK_BYTES: Final = 4


def public_text(key: bytes) -> str:
    """Return a public key as text."""
    return _text(PUBLIC, key)


def secret_text(key: bytes) -> str:
    """Return a secret key as text."""
    return _text(SECRET, key)


def read_public(text: str, where: str) -> bytes:
    """Read a public key.

    Args:
        text: the key as text.
        where: what has it, for the error.

    Raises:
        ConfigError: it is not a public key; the error never shows a secret one.
    """
    if text.startswith(SECRET):
        raise ConfigError(
            f"{where}: expected a public key ({PUBLIC}...), got a secret one; use the file with"
            f" {PUBLIC_SUFFIX} at its end. If others have read it, make new keys: stoker keygen"
        )
    return _key(PUBLIC, text, where)


def public_key_of(text_or_path: str | os.PathLike[str], where: str) -> bytes:
    """Read a public key from its text, or from the file at a path.

    Raises:
        ConfigError: it is neither.
    """
    text = os.fspath(text_or_path)
    if text.startswith((PUBLIC, SECRET)):
        return read_public(text.strip(), where)
    path = os.path.expanduser(text)
    found = [words for _, words in _lines(path, _read(path, where, private=False))]
    if len(found) != 1:
        raise ConfigError(f"{where}: expected one public key in {path}, got {len(found)} lines")
    return read_public(found[0][0], f"{where}: {path}")


def read_secret_file(path: str | os.PathLike[str], where: str) -> bytes:
    """Read the secret key in a file that only its owner can read; of root's, a group too.

    Args:
        path: of the file.
        where: the option that named it, for errors.

    Raises:
        ConfigError: the file cannot be read, others can read it, another user owns it, or it does
            not have one secret key.
    """
    path = os.path.expanduser(os.fspath(path))
    found = [words for _, words in _lines(path, _read(path, where, private=True))]
    if len(found) != 1 or len(found[0]) != 1:
        raise ConfigError(
            f"{where}: expected one secret key in {path}, got {len(found)} lines; make one with:"
            " stoker keygen FILE"
        )
    if found[0][0].startswith(PUBLIC):
        raise ConfigError(
            f"{where}: expected a secret key ({SECRET}...) in {path}, got a public one; name the"
            f" file without {PUBLIC_SUFFIX}"
        )
    return _key(SECRET, found[0][0], f"{where}: {path}")


def read_clients(path: str | os.PathLike[str], where: str) -> dict[bytes, str]:
    """Read the list of clients: public key -> name.

    Raises:
        ConfigError: the file cannot be read, others than its owner can write it, a line is not a
            key with a name, or a key or name comes twice.
    """
    path = os.path.expanduser(os.fspath(path))
    clients: dict[bytes, str] = {}
    lines: dict[bytes | str, int] = {}
    for number, words in _lines(path, _read(path, where, private=False)):
        place = f"{where}: {path}, line {number}"
        key = read_public(words[0], place)
        if len(words) != 2:
            raise ConfigError(f"{place}: expected a public key and a name, got {len(words)} words")
        for new in (key, words[1]):
            if new in lines:
                what = "key" if new == key else "name"
                raise ConfigError(
                    f"{place}: expected each {what} once, but that of {words[1]!r} is in line"
                    f" {lines[new]} too"
                )
            lines[new] = number
        clients[key] = words[1]
    return clients


def read_token_file(path: str | os.PathLike[str], where: str) -> bytes:
    """Read the token in a file that only its owner can read; of root's, a group too.

    Args:
        path: of the file, which has one word.
        where: the option that named it, for errors.

    Raises:
        ConfigError: the file cannot be read, others can read it, another user owns it, or it does
            not have one word of at least `LEAST_TOKEN` printable ASCII characters.
    """
    path = os.path.expanduser(os.fspath(path))
    remedy = f"make one with: (umask 077; openssl rand -hex 16 > {path})"
    words = _read(path, where, private=True, remedy=remedy).split()
    expected = f"{where}: expected one word of at least {LEAST_TOKEN} ASCII characters in {path}"
    if len(words) != 1:
        raise ConfigError(f"{expected}, got {len(words)} words; {remedy}")
    if len(words[0]) < LEAST_TOKEN or not (words[0].isascii() and words[0].isprintable()):
        raise ConfigError(f"{expected}, got {len(words[0])} characters; {remedy}")
    return words[0].encode()


def _text(prefix: str, key: bytes) -> str:
    assert len(key) == KEY_BYTES
    return prefix + base64.urlsafe_b64encode(key + _check(prefix, key)).decode()


def _check(prefix: str, key: bytes) -> bytes:
    return hashlib.sha256(prefix.encode() + key).digest()[:_CHECK_BYTES]


def _key(prefix: str, text: str, where: str) -> bytes:
    expected = f"{where}: expected {prefix} and 48 characters"
    if not text.startswith(prefix):
        raise ConfigError(f"{expected}, as `stoker keygen` writes them, got something else")
    try:
        data = base64.b64decode(text.removeprefix(prefix), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != KEY_BYTES + _CHECK_BYTES:
        count = len(text) - len(prefix)
        raise ConfigError(
            f"{expected}, each a letter, a digit, - or _; got {count} characters; copy the whole "
            "key again"
        )
    key = data[:KEY_BYTES]
    if data[KEY_BYTES:] != _check(prefix, key):
        raise ConfigError(f"{where}: the key has a typing error (its check differs); copy it again")
    return key


def _lines(path: str, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (number, words) of each line that is not empty."""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            yield number, words


def _read(
    path: str, where: str, *, private: bool, remedy: str = "make keys with: stoker keygen FILE"
) -> str:
    """Return the text of a file whose owner and mode are safe."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ConfigError(f"{where}: {path}: {error.strerror}; {remedy}") from None
    try:
        _check_file(path, where, os.fstat(descriptor), private)
        with open(descriptor, "rb", closefd=False) as file:
            data = file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(
            f"{where}: {path}: expected at most {MAX_FILE_BYTES} bytes, got a larger file"
        )
    try:
        return decode_text(data)
    except EncodingError:
        raise ConfigError(f"{where}: {path}: expected text in UTF-8; {remedy}") from None


def _check_file(path: str, where: str, status: os.stat_result, private: bool) -> None:
    if not stat.S_ISREG(status.st_mode):
        got = "a folder" if stat.S_ISDIR(status.st_mode) else "a device, a pipe or a socket"
        raise ConfigError(f"{where}: {path}: expected a regular file, got {got}")
    mine = status.st_uid in (os.geteuid(), 0)
    others = stat.S_IMODE(status.st_mode) & (0o077 if private else 0o022)
    if status.st_uid != os.geteuid() and private:
        others &= ~stat.S_IRGRP  # root can give it to a group alone, as for secrets of containers
    if not mine or others:
        rights = "read or write" if private else "write"
        raise ConfigError(
            f"{where}: {path}: expected a file of user {os.geteuid()} or root that no other user"
            f" can {rights}, got owner {status.st_uid}, mode {stat.filemode(status.st_mode)};"
            f" run: chmod {'600' if private else 'go-w'} {path}"
        )
