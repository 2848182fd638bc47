"""The diagram of a session's states in docs/protocol.md: a core takes each of its edges."""

import re
from collections.abc import Callable

import pytest
from tests.server.state.conftest import Rig, _open, of, records, result

from stoker.protocol import messages
from stoker.server.state import events
from stoker.server.state.core_instructions import (
    ReserveSlab,
    SendReplay,
    SendSlab,
    StartBuild,
    StartReplay,
)


@pytest.fixture(scope="module")
def diagram(docs) -> str:
    text = (docs / "protocol.md").read_text().partition("\n## A session\n")[2]
    return text.partition("```mermaid\n")[2].partition("```")[0]


class Session:
    """A session of a core, moved by the label at an edge of the diagram."""

    def __init__(self) -> None:
        self.rig = Rig()
        self.rig.up(1, 2)
        self.token = b""
        self.said: list[object] = []

    @property
    def state(self) -> str:
        found = self.rig.core._sessions.by_token.get(self.token)
        if found is None:
            return "gone" if self.token else "[*]"
        if not found.attached:
            return "greeted"
        if found.group is not None and found.opening is None:
            return "open"
        return "opening" if found.opening is not None else "attached"

    def go(self, label: str) -> None:
        """Do what a label says; check that the daemon answers as it says."""
        for what in EDGES[label]:
            what(self)


def greet(one: Session) -> None:
    one.token = one.rig.hello(attach=False)


def ask(one: Session, **changes: object) -> None:
    one.said = one.rig.send(one.token, _open(progress=True, **changes))


def build(one: Session) -> int:
    (start,) = of(one.rig.said, StartBuild)
    return start.request.build


def is_answered(kind: type, **fields: object) -> Callable[[Session], None]:
    def check(one: Session) -> None:
        found = of(records(one.said, one.token), kind)
        assert found, one.said
        assert all(getattr(found[-1], name) == value for name, value in fields.items())

    return check


def do(act: Callable[[Session], list]) -> Callable[[Session], None]:
    def step(one: Session) -> None:
        one.said = act(one)

    return step


def opened(one: Session) -> None:
    one.said = one.rig.do(events.Built, result(build(one)))
    (slab,) = of(one.said, ReserveSlab)
    one.said = one.rig.do(events.SlabReserved, slab.slab)
    assert of(one.said, SendSlab)


def silence(one: Session) -> None:
    one.said = one.rig.tick(11.0)


def replayed(one: Session) -> None:
    one.rig.send(one.token, messages.AskReplay(9, 3, 0, 0, 0))
    number = of(one.rig.said, StartReplay)[-1].request.replay
    one.said = one.rig.do(events.ReplayEnded, number, 4096)
    assert of(one.said, SendReplay)
    one.said = one.rig.send(one.token, messages.AskReplay(10, 10**6, 0, 0, 0))


def ran(one: Session) -> None:
    one.said = one.rig.run(one.token, run=1)
    one.rig.work()
    ready = one.rig.ready(one.token)
    assert ready
    one.said = one.rig.release(one.token, ready[0])
    one.said = one.rig.send(one.token, messages.Seek(2, 0, 10**6))


CLOSED = (do(lambda one: one.rig.end(one.token, "close")),)
END_OF_FILE = (do(lambda one: one.rig.end(one.token, "die")),)
EDGES = {
    "hello / welcome": (greet,),
    "attach / attached": (do(lambda one: one.rig.do(events.LifelineUp, one.token)),),
    "open": (ask,),
    "error (request)": (
        do(lambda one: one.rig.do(events.BuildFailed, build(one), "build", "no such op", {})),
        is_answered(messages.Error, request=1, code="build"),
    ),
    "building": (
        do(lambda one: one.rig.do(events.BuildProgress, build(one), 7, 13)),
        do(lambda one: [*one.said, *one.rig.tick(1.0)]),
        is_answered(messages.Building, done=7, total=13),
    ),
    "opened + slab": (opened, is_answered(messages.Opened, request=1)),
    "seek, credit, release / ready, error (run)": (
        ran, is_answered(messages.Error, run=2, code="usage"),
    ),
    "ask_replay / replayed, error (request)": (
        replayed, is_answered(messages.Error, request=10, code="usage"),
    ),
    "no attach in time": (silence,),
    "close": CLOSED,
    "end of file": END_OF_FILE,
}  # fmt: skip
"""The action of each label of the diagram on a core, and its required result."""
PATHS = {
    "greeted": ("hello / welcome",),
    "attached": ("hello / welcome", "attach / attached"),
    "opening": ("hello / welcome", "attach / attached", "open"),
    "open": ("hello / welcome", "attach / attached", "open", "opened + slab"),
    "gone": (),
}


def edges(diagram: str) -> list[tuple[str, str, str]]:
    """The edges of the state diagram; a label of alternatives is several edges."""
    found = re.findall(r"^ +(\S+) --> (\S+): (.+)$", diagram, re.M)
    split = []
    for start, end, label in found:
        labels = label.split(", ") if end == "gone" else [label]
        split += [(start, end, one) for one in labels]
    return split


def test_the_core_takes_every_edge_of_the_diagram(diagram: str) -> None:
    found = edges(diagram)
    assert len(found) > 10
    assert {label for *_, label in found} == set(EDGES), "each label is an edge, and known"
    assert {state for start, end, _ in found for state in (start, end)} == {*PATHS, "[*]"}
    for start, end, label in found:
        one = Session()
        for before in PATHS.get(start, ()):
            one.go(before)
        assert one.state == start, (start, label)
        one.go(label)
        assert one.state == end, (start, end, label)


def test_bye_can_come_in_every_state(diagram: str) -> None:
    assert "bye can come in every state" in diagram
    for state, path in PATHS.items():
        if path:
            one = Session()
            for label in path:
                one.go(label)
            one.said = one.rig.do(events.StopAsked, at_once=False)
            is_answered(messages.Bye)(one)
            assert one.state == "gone", state
