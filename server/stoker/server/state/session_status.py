"""What STATUS says about a session."""

from stoker.protocol.messages import SessionState, SessionStatus
from stoker.server.state.clients import harmless
from stoker.server.state.groups.group import Group, Member
from stoker.server.state.session_state import Session


def session_status(session: Session, now: float) -> SessionStatus:
    """Return the description of a session; constant cost."""
    client, group = session.client, session.group
    member = None if group is None else group.members.get(session.token)
    epoch, step, steps = (0, 0, 0) if group is None or member is None else _place(group, member)
    run = None if member is None else member.run
    return SessionStatus(
        name=client.name,
        host=client.host,
        pid=client.pid,
        user=client.user,
        known_from=client.known_from,
        state=_state(session),
        dataset=session.dataset,
        pipeline=session.pipeline,
        stream="" if group is None else group.stream.stream_id,
        group="" if group is None else harmless(group.name),
        rank=0 if group is None else group.record.rank,
        world_size=0 if group is None else group.record.world_size,
        epoch=epoch,
        step=step,
        steps=steps,
        epochs=session.epochs,
        announced=0 if member is None else member.tally.announced,
        returned=0 if member is None else member.tally.returned,
        untaken=0 if run is None else max(run.window - run.credits, 0),
        slots=0 if member is None else member.quota,
        waited_s=0.0 if member is None else member.tally.waited_s(now),
        age_s=now - session.greeted_at,
        number=session.number,
        rows=0 if group is None else group.steps.largest.rows,
        returned_s=-1.0 if member is None else member.tally.returned_s(now),
    )


def _state(session: Session) -> SessionState:
    if session.group is not None:
        return "open"
    if session.opening is not None:
        return "opening"
    return "attached" if session.attached else "greeted"


def _place(group: Group, member: Member) -> tuple[int, int, int]:
    """Return the (epoch, step) of the next batch to announce, and the steps of that epoch."""
    pending = () if member.run is None else member.run.pending
    epoch, step = pending[0].place if pending else member.place
    return epoch, step, group.steps.count(epoch)
