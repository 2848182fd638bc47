"""Keys as text: what is written is read, and no mistake in it goes unnoticed."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.protocol.errors import ConfigError
from stoker.protocol.remote.keys import (
    PUBLIC,
    SECRET,
    public_key_of,
    public_text,
    read_clients,
    read_public,
    secret_text,
)

KEYS = st.binary(min_size=32, max_size=32)
ALPHABET = string.ascii_letters + string.digits + "-_"


@given(KEYS)
def test_text_and_back(key) -> None:
    assert read_public(public_text(key), "here") == key
    assert len(public_text(key)) == len(PUBLIC) + 48


@given(KEYS, st.integers(0, 47), st.sampled_from(ALPHABET))
def test_one_wrong_character_is_noticed(key, position, character) -> None:
    text = public_text(key)
    at = len(PUBLIC) + position
    wrong = text[:at] + character + text[at + 1 :]
    if wrong != text:
        with pytest.raises(ConfigError, match="here: the key has a typing error"):
            read_public(wrong, "here")


@given(KEYS, st.integers(1, 47))
def test_a_part_of_a_key(key, length) -> None:
    said = f"expected {PUBLIC} and 48 characters, each a letter, .* got {length} characters; copy"
    with pytest.raises(ConfigError, match=said):
        read_public(public_text(key)[: len(PUBLIC) + length], "here")


@given(KEYS)
def test_a_secret_key_is_no_public_one_and_is_not_shown(key) -> None:
    with pytest.raises(ConfigError, match="got a secret one") as caught:
        read_public(secret_text(key), "here")
    assert secret_text(key).removeprefix(SECRET) not in str(caught.value)
    renamed = secret_text(key).replace(SECRET, PUBLIC)
    with pytest.raises(ConfigError, match="typing error"):
        read_public(renamed, "here")


@pytest.fixture
def lines(tmp_path):
    def write(text: str):
        path = tmp_path / "file"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return path

    return write


ONE, TWO = public_text(b"1" * 32), public_text(b"2" * 32)


def test_a_list_of_clients(lines) -> None:
    path = lines(f"# who trains here\n\n{ONE} alice # Zoë's host\n  {TWO}\tbob\n")
    assert read_clients(path, "clients") == {b"1" * 32: "alice", b"2" * 32: "bob"}
    assert read_clients(lines(""), "clients") == {}


def test_a_public_key_by_text_or_file(lines) -> None:
    assert public_key_of(ONE, "daemon_key") == b"1" * 32
    assert public_key_of(lines(f"{ONE} daemon\n"), "daemon_key") == b"1" * 32
