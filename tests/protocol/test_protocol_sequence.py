"""The sequence diagram of docs/protocol.md: its records, and a session that follows it.

A real Loader talks to a fake daemon, which notes what the client sends. A real core is then given
the same records. So each side is compared with the diagram, without processes.
"""

import contextlib
import re
import typing
from collections.abc import Iterable
from pathlib import Path

import pytest
from fake_daemons import FakeDaemon
from tests.server.state.conftest import Rig, _open, of, records, result

from stoker.client import Loader, batch_delivery
from stoker.protocol import messages as m
from stoker.protocol.codec import encode
from stoker.server.state import core_instructions as ins
from stoker.server.state import events

PREFETCH = 3
SIDE = "side socket"
REMARKS = {SIDE, "if asked for", "..."}
PARTS = re.compile(r", (?![^(]*\))")


class Arrow(typing.NamedTuple):
    """One record at an arrow: `C->>D`, and `credit(1, prefetch)` as its name and what follows."""

    way: str
    name: str
    given: str


@pytest.fixture(scope="module")
def page(docs: Path) -> str:
    return (docs / "protocol.md").read_text()


@pytest.fixture(scope="module")
def arrows(page: str) -> list[Arrow]:
    (diagram,) = re.findall(r"^```mermaid\nsequenceDiagram\n(.*?)^```", page, re.M | re.S)
    found = []
    for way, label in re.findall(r"^ +([CD]--?>>[CD]): (.+)$", diagram, re.M):
        parts = PARTS.split(label)
        assert (SIDE in parts) == ("-->>" in way), label
        for part in parts:
            if part not in REMARKS:
                name, given = re.fullmatch(r"(\w+)(?:\((.*)\)| \+ descriptor)?", part).groups()
                found.append(Arrow(way, name, given or ""))
    assert len(found) > 15
    return found


def tags(union: object) -> dict[str, type]:
    return {kind.__struct_config__.tag: kind for kind in typing.get_args(union)}


def test_the_records_of_the_diagram_go_the_way_that_they_can(arrows: list[Arrow]) -> None:
    ways = {
        "C->>D": tags(m.ClientRecord),
        "D->>C": tags(m.DaemonRecord),
        "C-->>D": {"attach": m.Attach},
        "D-->>C": {tag: kind for tag, kind in tags(m.SideRecord).items() if kind is not m.Attach},
    }
    for arrow in arrows:
        assert arrow.name in ways[arrow.way], arrow


@pytest.fixture(scope="module")
def session(session_folder: Path) -> list[m.Record]:
    """Records of a Loader that uses two batches, leaves the loop, begins the next one, and ends."""
    first: list[m.Ready] = []
    with pytest.MonkeyPatch.context() as patch, contextlib.ExitStack() as stack:
        patch.setattr(batch_delivery, "QUICK_S", 0.0)  # so that no credit waits for the next one
        folder = session_folder / "sequence"
        folder.mkdir()
        stack.callback(folder.rmdir)
        fake = FakeDaemon(folder)
        stack.callback(fake.close)

        def together(ready: m.Ready) -> list[m.Ready | bytes]:
            """The first ones come in one message, as a daemon sends those of one turn."""
            first.append(ready)
            if len(first) == PREFETCH:
                return [encode(fake._token, first)]
            return [ready] if len(first) > PREFETCH else []

        fake.alter_ready = together
        given = {"pipeline": "train", "batch_size": 16, "device": "numpy", "prefetch": PREFETCH}
        with Loader(fake.address, **given) as loader:
            for batch in loader:
                if batch.step == 1:
                    break
                del batch
            assert next(iter(loader)).epoch == 1
        fake.wait_for(lambda: bool(fake.of(m.Close)))
        assert [(one.slot, one.generation) for one in first[:3]] == [(0, 1), (1, 1), (2, 1)]
        return fake.received


def has_in_order(arrows: list[Arrow], said: Iterable[tuple[str, str]]) -> None:
    """Check that records come in the order of the arrows, with others in between."""
    said = list(said)
    rest = iter(said)
    for arrow in arrows:
        assert (arrow.name, arrow.given) in rest, (arrow, said)


def of_client(record: m.Record) -> tuple[str, str]:
    """A record as an arrow has it."""
    match record:
        case m.Attach():
            given = "token"
        case m.Seek():
            given = f"run {record.run}, {record.epoch}, {record.step}"
        case m.Credit():
            given = f"{record.run}, {'prefetch' if record.batches == PREFETCH else record.batches}"
        case m.Release():
            given = "announced, never used" if (2, 1) in record.slots else "slot"
        case _:
            given = ""
    return record.__struct_config__.tag, given


def test_a_loader_sends_what_the_diagram_says_in_this_order(
    arrows: list[Arrow], session: list[m.Record]
) -> None:
    has_in_order([one for one in arrows if one.way.startswith("C")], map(of_client, session))


def of_daemon(record: m.Record) -> tuple[str, str]:
    """A record as an arrow has it."""
    match record:
        case m.Building():
            given = f"{record.done} of {record.total}"
        case m.Ready():
            given = f"{record.epoch}, {record.step}"
        case _:
            given = ""
    return record.__struct_config__.tag, given


def answers(session: list[m.Record]) -> list[tuple[str, str]]:
    """The answers of a core to the records of a session, in the form of arrows."""
    rig = Rig()
    rig.up(1, 2)
    token = rig.hello()  # welcome, and the side socket is attached
    for record in session:
        if isinstance(record, m.Open):
            rig.send(token, _open(prefetch=record.delivery.prefetch, progress=True))
            (start,) = of(rig.said, ins.StartBuild)
            rig.do(events.BuildProgress, start.request.build, 7, 13)
            rig.tick(1.0)
            rig.do(events.Built, result(start.request.build))
            (slab,) = of(rig.said, ins.ReserveSlab)
            rig.do(events.SlabReserved, slab.slab)
        elif not isinstance(record, m.Hello | m.Attach):
            rig.send(token, record)
            rig.work()
    said = [("welcome", "token"), ("attached", "")]
    for one in rig.said:
        said += [("slab", "")] * isinstance(one, ins.SendSlab)
        said += map(of_daemon, records([one], token))
    return said


def test_a_core_answers_what_the_diagram_says_in_this_order(
    arrows: list[Arrow], session: list[m.Record]
) -> None:
    has_in_order([one for one in arrows if one.way.startswith("D")], answers(session))
