"""An unexpected exception ends only what it concerns; one in the state ends the daemon."""

import numpy as np
import pytest

import stoker.server.state.core_instructions as ins
from stoker.client import Connection, Loader
from stoker.protocol.errors import PeerError, StokerError
from stoker.protocol.messages import AskStatus
from stoker.server.daemon.failure_events import FOR_A_WORKER, failure_event
from stoker.server.daemon.guard import EXIT_CODE
from stoker.server.workers.failpoints import FailPoints

HITS = range(1, 26)
STEPS = 4


def loader(address: str) -> Loader:
    """Open a stream; the fault may come while the daemon greets, so it asks a few times."""
    error: StokerError | None = None
    for _ in range(3):
        try:
            return Loader(
                address, dataset="photos", pipeline="train", batch_size=10, drop_last=True,
                connection=Connection(reconnect_s=20.0, connect_timeout_s=10.0, timeout_s=10.0),
                device="numpy",
            )  # fmt: skip
        except StokerError as refused:
            error = refused
    raise AssertionError("refused three times") from error


def read(address: str, expected_value) -> None:
    """Read batches, and compare every byte."""
    with loader(address) as batches:
        for step, batch in zip(range(STEPS), batches, strict=False):
            want = [[expected_value(0, step, row)] * 7 for row in range(10)]
            assert np.array_equal(batch["x"], want)


@pytest.mark.parametrize("place", ["message", "descriptor", "instruction", "tick"])
def test_a_fault_in_a_handler_ends_what_it_concerns(start, expected_value, caplog, place):
    for hit in HITS:
        caplog.clear()
        running = start(testing__fail_points=f"daemon.{place}:error:{hit}")
        read(running.address, expected_value)
        read(running.address, expected_value)
        running.daemon.stop()
        assert running.join() == 0
        found = [r.facts for r in caplog.records if r.message == "unexpected_error"]
        assert [facts["handler"] for facts in found] in ([place], [])
        if hit < 3:
            assert "RuntimeError: fail point daemon." in found[0]["traceback"]
            assert running.daemon._guard.errors == 1


def test_the_error_comes_before_the_end_of_the_session(start, eventually):
    """Messages of ZeroMQ may be slower than the side socket: here they are not read at all."""
    running = start()
    with Loader(
        running.address, dataset="photos", pipeline="train", batch_size=10, device="numpy"
    ) as batches:
        session = batches._connection.daemon_stream.session
        running.daemon._guard._fail = FailPoints("daemon.message:error:1")
        session.send(AskStatus())
        eventually(lambda: running.counter("sessions") == 0)
        session._has_message = lambda: False
        with pytest.raises(PeerError, match="the daemon failed while it handled this session"):
            list(batches)


def test_a_fault_in_the_state_ends_the_daemon(start, connect, caplog):
    running = start(testing__fail_points="daemon.event:error:2")
    connect(running.address).dealer.send(b"nothing")
    assert running.join() == EXIT_CODE
    events = [record.message for record in caplog.records]
    assert events.index("unexpected_error") < events.index("state_in_doubt")


def test_many_faults_do_not_fill_the_log(start, expected_value, caplog):
    plan = ",".join(f"daemon.message:error:{hit}" for hit in range(1, 21))
    running = start(testing__fail_points=plan)
    for _ in range(20):
        with pytest.raises(StokerError):
            Loader(running.address, dataset="photos", pipeline="train", batch_size=10)
    read(running.address, expected_value)
    lines = [record for record in caplog.records if record.message == "unexpected_error"]
    assert len(lines) == 5
    assert running.counter("unexpected_errors_total") == 20


def test_each_instruction_has_a_consequence_or_needs_none():
    kinds = set(ins.Instruction.__subclasses__())
    told = {kind for kind in kinds if kind in FOR_A_WORKER or aftermath_of(kind)}
    told.add(ins.SendPeer)  # if it greets a session
    harmless = {ins.DropReplay, ins.FreeSlab, ins.ShrinkSlab, ins.Quarantine, ins.Log, ins.Exit}
    assert told | harmless == kinds


def aftermath_of(kind: type) -> bool:
    """Return whether the core gets an event for it."""
    made = kind(**dict.fromkeys(kind.__struct_fields__, 1))
    try:
        return failure_event(made, 0.0) is not None
    except AttributeError:  # it reads what this one lacks
        return True
