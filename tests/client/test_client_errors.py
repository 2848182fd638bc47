"""The errors of a client that asks a daemon, once each. test_arguments.py has those before it."""

import os
import pickle
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from loading import load

from stoker.client import Batch
from stoker.client.private.runtime_folder import base_folder
from stoker.client.slab_map import SlabMap
from stoker.client.testing import ResumeCheckError, check_resume
from stoker.protocol.errors import (
    ConnectError,
    ProtocolError,
    ResumeError,
    SetupError,
    UsageError,
    VersionError,
)

FOREVER_S = 3600.0


class Empty:
    def __iter__(self):
        return iter(())

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


class Sets(Empty):
    def state_dict(self):
        return {"seen": {1, 2}}


def loaded(act: Callable = lambda loader: next(iter(loader)), **options) -> Callable:
    """A call that does something with a loader of the fake daemon."""

    def call(on: SimpleNamespace) -> None:
        with load(on.daemon, **options) as loader:
            act(loader)

    return call


def resumed(**changes) -> Callable:
    """A call that loads the loader's own cursor, with changes."""
    return loaded(lambda loader: loader.load_state_dict({**loader.state_dict(), **changes}))


def resume_another_stream(on: SimpleNamespace) -> None:
    with load(on.daemon) as one, load(on.make_daemon(), seed=1) as other:
        other.load_state_dict(one.state_dict())


def at(name: str, **options) -> Callable:
    """A call that looks for a daemon where none is."""
    return lambda on: load(SimpleNamespace(address=f"ipc://{on.folder}/{name}"), **options)


@contextmanager
def side_socket(on: SimpleNamespace) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.bind(f"{on.folder}/other.sock.fd")
        yield sock


def at_a_stale_socket(on: SimpleNamespace) -> None:
    with side_socket(on):
        pass
    at("other.sock", connect_timeout_s=FOREVER_S)(on)


def at_a_socket_that_says_nothing(on: SimpleNamespace) -> None:
    """And no ZeroMQ: it is bounded by connect_timeout_s."""
    with side_socket(on) as listener:
        listener.listen()
        at("other.sock", connect_timeout_s=0.05)(on)


def map_memory_that_may_shrink(_: SimpleNamespace) -> None:
    with open(os.memfd_create("slab"), "wb") as file:
        file.truncate(8192)
        SlabMap(file.fileno(), 2, 4096, writable=True)


def find_no_writable_folder(_: SimpleNamespace) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        base_folder()


ERRORS = [
    *[
        (lambda _, name=name: getattr(Batch({"image": np.zeros(3), "step": np.ones(3)}), name),
         AttributeError, f"no output '{name}'; it has image, step")
        for name in ("index", "requested", "valid")
    ],
    (find_no_writable_folder, SetupError, "set XDG_RUNTIME_DIR"),
    *[
        (loaded(lambda loader, name=name: getattr(next(iter(loader)), name)), AttributeError,
         rf"Loader\(\.\.\., {option}=True\)")
        for name, option in (("chain", "verify"), ("digest", "verify"), ("params", "params"))
    ],
    *[
        (lambda _, wrong=wrong: check_resume(Empty, **wrong), UsageError,
         rf"check_resume: {next(iter(wrong))}=.*: expected an")
        for wrong in ({"epochs": 0}, {"epochs": None}, {"every": True}, {"rest": 0})
    ],
    (lambda _: check_resume(Sets), ResumeCheckError,
     "the state saved before step 0 of loop 0 is not pl"),
    (lambda _: check_resume(Empty), UsageError, "no batches in its first loop"),
    (lambda _: load(SimpleNamespace(address="tcp://127.0.0.1:1")), ConnectError,
     "no daemon listens at tcp://127.0.0.1:1"),
    (at_a_socket_that_says_nothing, ConnectError, r"did not answer within 0\.05 s; is it a daemon"),
    (at_a_stale_socket, ConnectError, "Connection refused"),
    (at("none", connect_timeout_s=FOREVER_S), ConnectError,
     r"no daemon listens at ipc:///.*/none: No such file(?s:.*)Start one with `stoker serve`"),
    (at("none", reconnect_s=FOREVER_S), ConnectError, "no daemon listens"),
    (lambda on: load(SimpleNamespace(address=[on.daemon.address, f"ipc://{on.folder}/none"])),
     ConnectError, "no daemon listens at ipc://.*/none"),
    (at("none", as_dict=3), UsageError, "as_dict=3: expected names of outputs"),
    (at("none", as_tuple=("image", 7)), UsageError, r"as_tuple=\('image', 7\): expected names"),
    (at("none", as_dict=True, as_tuple="image"), UsageError, "expected only one of them"),
    (loaded(as_dict=()), UsageError, r"as_dict=\(\): expected names of outputs, such as"),
    (loaded(as_dict=3), UsageError,
     r"as_dict=3: expected names of outputs, such as \('image', 'label'\), or"),
    (loaded(as_dict=True, as_tuple="image"), UsageError,
     "as_tuple='image' and as_dict=True: expected on"),
    (loaded(as_dict=("image", "labels")), UsageError,
     "as_dict: the batches have no output 'labels'; they ha"),
    (loaded(as_tuple={"image"}), UsageError,
     "as_tuple={'image'}: expected names of outputs, such as"),
    (loaded(as_tuple=("image", "lable")), UsageError,
     "as_tuple: the batches have no output 'lable'; they have image, label"),
    (loaded(verify=True), VersionError, "older than this client"),
    *[
        (loaded(lambda loader, wrong=wrong: loader.load_state_dict(wrong)), ResumeError,
         rf"expected a cursor of version 1: {why}; pass what state_dict\(\) returned")
        for wrong, why in (
            ({}, "Object missing required field `stream`"), ([], "Expected `object`, .*"),
            (None, "Expected `object`, .*"), ({"version": 2}, r"Invalid enum value 2 - at .*"),
        )
    ],
    (resume_another_stream, ResumeError, r"seed: was 0, is 1\nuse the same arguments"),
    (resumed(skips={"0": [4, 1]}), ResumeError, "the cursor's skips: expected a range of steps"),
    (resumed(step=-1), ResumeError,
     "expected a cursor whose epoch, step and skipped are at least 0, got 0, -1, 0"),
    (resumed(step=6), ResumeError, "names step 6, but an epoch of this stream has 5"),
    (loaded(pickle.dumps), UsageError, "cannot be pickled or copied; make one in each process"),
    (loaded(lambda loader: loader.set_hosts(["ipc:///a"])), UsageError,
     "this loader was made with one address"),
    (map_memory_that_may_shrink, ProtocolError, "at least 8192 bytes, sealed against shrinking"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("call", "error", "message"), ERRORS, ids=[message[:60] for *_, message in ERRORS]
)
def test_what_a_client_reports(folder, daemon, make_daemon, call, error, message):
    with pytest.raises(error, match=message) as caught:
        call(SimpleNamespace(folder=folder, daemon=daemon, make_daemon=make_daemon))
    assert caught.type is error
