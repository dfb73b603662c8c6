"""What requests and answers do to a group: members come, join, get their assignment, are refused, go."""

from __future__ import annotations

from kproxy.counting.names import LONGEST
from kproxy.groups import explanations, rebalances
from kproxy.groups.model import Begun, Event, EventKind, Given, GroupHistory, Lane, Protocol, Standing, Streak
from kproxy.groups.stalls import members, waits
from kproxy.groups.stalls.endings import goes, over
from kproxy.trace.lines import RequestLine, ResponseLine

MOST_STREAKS = 20  # errors of a lane that are followed


def asked(group: GroupHistory, lane: Lane, event: Event, line: RequestLine) -> None:
    """A request of a member was sent."""
    kind, at = event.kind, event.at
    if kind is EventKind.HEARTBEAT or kind is EventKind.SYNC or kind is EventKind.JOIN:
        silent = at - lane.beat_at > members.LEAST_SILENCE and members.silence_limit(group, lane, at) is not None
        if silent:
            over(group, members.silence(group, lane, at), at)
        elif lane.standing is Standing.LOST:
            over(group, members.lost(group, lane, at), at)
        if kind is EventKind.HEARTBEAT:
            lane.beats_again(at, event.row, silent)
            if lane.standing is Standing.LOST:
                lane.stand(Standing.MEMBER, at)
        elif kind is EventKind.JOIN:
            rebalances.joins(group, lane, event)
        else:
            if lane.standing is Standing.JOINED and at - lane.since > waits.SYNC_PATIENCE:
                over(group, waits.syncs(group, at), at)
            lane.asked = event
            lane.stand(Standing.SYNCING, at)
            if line.size - len(lane.client_id) - len(group.id) - 2 * len(lane.member_id) > rebalances.LEADERS_BYTES:
                group.leader = lane.key
    elif kind is EventKind.LEAVE:
        lagging = list(waits.lagging(group, at))
        goes(group, lane, at)
        lane.stand(Standing.LEFT, at)
        if group.counted():
            rebalances.reconciled(group, lagging, at)
        else:
            group.begun = None


def answered(group: GroupHistory, lane: Lane, event: Event, line: ResponseLine, at: int) -> None:
    """A request of a member was answered; `event` has been told what."""
    kind, error = event.kind, event.error
    if at - event.at > members.PATIENCE:
        over(group, members.unanswered(group, lane, at), at)
        lane.beat_at = lane.beat_at and at  # a client waits for the answer before it sends the next heartbeat
    lane.waiting.pop(event.row, None)
    if error:
        _refused(group, lane, event, at)
        return
    if lane.refused:
        _accepted(group, lane, kind, at)
    if kind is not EventKind.COORDINATOR:
        _coordinated(group, line.server[:LONGEST], at, event.row)
    if group.denied is not None and (kind is not EventKind.COORDINATOR or group.denied.kind is EventKind.COORDINATOR):
        over(group, waits.coordinator(group, at), at)
        group.denied = None
    if kind is EventKind.HEARTBEAT:
        if lane.standing in (Standing.SEEN, Standing.LOST, Standing.OUT):
            lane.stand(Standing.MEMBER, at)
        if group.protocol is Protocol.CLASSIC:
            lane.told = None
        if line.generation_id is not None and line.generation_id != lane.generation:
            rebalances.reached(group, lane, line.generation_id, at, event.row)
    elif kind is EventKind.JOIN:
        rebalances.joined(group, lane, event, line, at)
    elif kind is EventKind.SYNC:
        rebalances.synced(group, lane, line, at, event.row)
    elif kind is EventKind.COMMIT:
        lane.commits += 1
        group.commits += 1
        lane.commit_at = group.commit_at = at


def _coordinated(group: GroupHistory, server: str, at: int, row: int) -> None:
    """A broker has answered as the group's coordinator: another one than before only if that was heard to be none."""
    if server != group.coordinator:
        if group.coordinator and (group.denied is not None or group.closed_at >= group.coordinated_at):
            over(group, [waits.moved(group, server, at, row)], at)
        group.coordinator = server
    group.coordinated_at = at


def _refused(group: GroupHistory, lane: Lane, event: Event, at: int) -> None:
    kind, error = event.kind, event.error
    if error == "MEMBER_ID_REQUIRED":
        lane.stand(Standing.SEEN, at)
        group.given[lane.key] = Given(at, event.row, lane.label)
        rebalances.cancelled(group)
        return
    if error == explanations.REJOIN and kind is not EventKind.COMMIT:
        _told(group, lane, event, at)
        return
    if error in explanations.DENIED:
        group.denied = _counted(group.denied, event, at)
    else:
        if len(lane.refused) < MOST_STREAKS or error in lane.refused:
            lane.refused[error] = _counted(lane.refused.get(error), event, at)
        if error in explanations.GONE and kind is not EventKind.COMMIT:
            goes(group, lane, at)
            lane.stand(Standing.OUT, at)
        if lane.gone:
            _forgiven(group, lane)
    if kind is EventKind.JOIN:
        lane.stand(Standing.OUT if error in explanations.GONE else Standing.SEEN, at)
        rebalances.cancelled(group)
    elif kind is EventKind.SYNC and lane.standing is Standing.SYNCING:
        lane.stand(Standing.JOINED, at)


def _told(group: GroupHistory, lane: Lane, event: Event, at: int) -> None:
    """A member was told that the group rebalances, and has to join again."""
    lane.told = _counted(lane.told, event, at)
    if lane.standing not in (Standing.JOINING, Standing.LEFT):
        lane.stand(Standing.MEMBER, at)
    if group.begun is None:
        group.begun = Begun(at, group.generation)


def _counted(streak: Streak | None, event: Event, at: int) -> Streak:
    if streak is None or streak.error != event.error:
        return Streak(event.error, event.kind, at, at, event.row)
    streak.count += 1
    streak.last, streak.kind = at, event.kind
    return streak


def _accepted(group: GroupHistory, lane: Lane, kind: EventKind, at: int) -> None:
    """A member was not refused: what it was refused before is over."""
    for error, streak in list(lane.refused.items()):
        if streak.kind is kind or kind is EventKind.JOIN:
            del lane.refused[error]
            over(group, members.refusal(group, lane, streak), at)


def missed(group: GroupHistory, lane: Lane, at: int) -> None:
    """Something was not seen, perhaps any answer or heartbeat: how a member that was joining stands is not known."""
    lane.waiting.clear()
    lane.gaps.clear()
    lane.told = None
    lane.beat_at = at
    if lane.standing in (Standing.JOINING, Standing.JOINED, Standing.SYNCING):
        lane.stand(Standing.SEEN, at)
        group.begun = None


def closed(group: GroupHistory, lane: Lane, by: str | None, at: int) -> None:
    """The connection of a member ended; `by` nobody means that it is no longer watched."""
    if by in ("client", "server"):
        _vanishes(group, lane, at)
    group.closed_at = at
    lane.gone = f"its connection was closed by the {by}" if by else "its connection is no longer watched"
    lane.waiting.clear()
    _forgiven(group, lane)


def renamed(group: GroupHistory, lane: Lane, at: int) -> None:
    """A client joins as somebody new: whom it was before it will not be again."""
    lane.unsynced = 0  # its new self counts on
    _vanishes(group, lane, at)
    lane.gone = "its client rejoined with another member id"
    _forgiven(group, lane)


def _vanishes(group: GroupHistory, lane: Lane, at: int) -> None:
    if lane.standing in (Standing.JOINING, Standing.JOINED, Standing.SYNCING, Standing.MEMBER):
        goes(group, lane, at)
        lane.stand(Standing.LOST, at)


def _forgiven(group: GroupHistory, lane: Lane) -> None:
    for streak in lane.refused.values():
        over(group, members.refusal(group, lane, streak), streak.last)
    lane.refused.clear()
