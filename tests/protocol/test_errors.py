"""Typed errors: each crosses the wire and comes back as itself."""

import re

import pytest

from stoker.protocol import errors
from stoker.protocol.codec import decode_from_daemon, encode
from stoker.protocol.errors import StokerError, from_record
from stoker.protocol.messages import Error

KINDS = sorted(
    (
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, StokerError)
    ),
    key=lambda kind: kind.__name__,
)
DETAILS = {"dataset": "photos", "id": 17, "again": False, "field": None, "message": "m", "self": 1}


def test_codes_are_different() -> None:
    assert len(KINDS) == 21
    assert len({kind.code for kind in KINDS}) == len(KINDS)
    assert all(re.fullmatch("[a-z_]+", kind.code) for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_crosses_the_wire(kind: type[StokerError]) -> None:
    error = kind("expected a, got b", **DETAILS)
    assert str(error) == "expected a, got b"
    record = Error(3, *error.to_record(), run=9)
    _, (received,) = decode_from_daemon(encode(b"t" * 16, [record]))
    assert received == record
    back = from_record(received.code, received.message, received.details)
    assert type(back) is kind
    assert back.to_record() == error.to_record()
    assert {key: type(value) for key, value in back.details.items()} == {
        key: type(value) for key, value in DETAILS.items()
    }


def test_an_unknown_code_is_a_plain_error() -> None:
    back = from_record("from_the_future", "something new", {"a": 1})
    assert type(back) is StokerError
    assert (back.message, back.details) == ("something new", {"a": 1})


def test_details_are_a_copy() -> None:
    error = StokerError("m", a=1)
    error.to_record()[2]["a"] = 2
    assert error.details == {"a": 1}


def test_the_three_kinds_are_apart() -> None:
    assert issubclass(errors.ResumeError, errors.UsageError)
    assert issubclass(errors.DaemonLostError, errors.PeerError)
    assert not issubclass(errors.ClosedError, errors.UsageError | errors.PeerError)
    assert not issubclass(errors.SampleError, errors.UsageError | errors.PeerError)


def test_a_class_of_another_package_travels_as_its_base() -> None:
    class OpError(errors.BuildError):
        code = "op"

    class DeepError(OpError):
        code = "deep"

    error = DeepError("m", a=1)
    assert error.code == "deep"
    assert error.to_record() == ("build", "m", {"a": 1})
    assert type(from_record(*error.to_record())) is errors.BuildError
    assert type(from_record("deep", "m", {})) is StokerError
