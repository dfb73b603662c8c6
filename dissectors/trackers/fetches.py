"""Fetches: from which offset a connection asks for each partition, over KIP-227's sessions, and what it got last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dissectors.bounded import BoundedDict
from dissectors.connections.events import BytesSkipped, RequestReceived, ResponseReceived
from dissectors.trackers import tracker
from dissectors.trackers.partitions import Place, RefusedPartition, refusals, topic_of
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: Sessions of one connection (clients have one), and partitions of a session beyond which it is not followed.
_MOST_SESSIONS = 2
_MOST_PARTITIONS = 20_000

_READ_COMMITTED = 1
_IRREGULAR, _REFUSED, _STARVED = FrameFlags.IRREGULAR.value, FrameFlags.REFUSED.value, FrameFlags.STARVED.value


def asked_for(body: Mapping[str, Any]) -> Iterator[tuple[Place, Mapping[str, Any], tuple[str | int, ...]]]:
    """The partitions that a Fetch request names, each with its values and the way to them."""
    for i, topic in enumerate(body.get("topics") or ()):
        name = topic_of(topic)
        for j, each in enumerate(topic.get("partitions") or ()):
            yield (name, each.get("partition", 0)), each, ("topics", i, "partitions", j)


def is_follower(asked: Mapping[str, Any]) -> bool:
    """Whether a broker fetches, to replicate, and no consumer."""
    state: Mapping[str, Any] = asked.get("replica_state") or asked
    return bool(state.get("replica_id", -1) != -1)


def end_for(asked: Mapping[str, Any]) -> str:
    """The field of a response that says how far this reader may read."""
    return "last_stable_offset" if asked.get("isolation_level") == _READ_COMMITTED else "high_watermark"


def opens_session(asked: Mapping[str, Any]) -> bool:
    """Whether a request asks for a session of its own."""
    return asked.get("session_epoch") == 0 == asked.get("session_id")


class _Session:
    """Partitions with the offset that is asked for and the end that was told last; `behind` are those with more."""

    def __init__(self) -> None:
        self.offsets: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        self.behind: set[Place] = set()

    def ask(self, offsets: Mapping[Place, int]) -> None:
        self.offsets.update(offsets)
        self._judge(offsets)

    def answer(self, ends: Mapping[Place, int]) -> None:
        self.ends.update(ends)
        self._judge(ends)

    def forget(self, place: Place) -> None:
        self.offsets.pop(place, None)
        self.ends.pop(place, None)
        self.behind.discard(place)

    def _judge(self, places: Iterable[Place]) -> None:
        for place in places:
            offset = self.offsets.get(place)
            if offset is not None and self.ends.get(place, -1) > offset:
                self.behind.add(place)
            else:
                self.behind.discard(place)


@tracker(
    events=(RequestReceived, ResponseReceived, BytesSkipped),
    apis=("Fetch",),
    broken=True,
    per="connection",
    flags=FrameFlags.STARVED,
)
class Fetches:
    """One connection's fetches.

    In a session (version 7 and later) a request names only the partitions whose offset changed, and a response only
    those that have news. `is_empty` says that the latest response brings no record, `refused` which of its partitions
    have an error; `granted` counts the sessions that were opened one after the other and not used.

    Source: KIP-227.
    """

    def __init__(self) -> None:
        self.is_empty = False
        self.refused: list[RefusedPartition] = []
        self.granted = 0
        self._sessions: BoundedDict[int, _Session] = BoundedDict(_MOST_SESSIONS)

    def observe(self, event: RequestReceived | ResponseReceived | BytesSkipped, connection: ConnectionState) -> None:
        """Take a request's offsets into its session, and look through a response once for all rules."""
        if isinstance(event, ResponseReceived):
            self._response(event, connection)
        elif isinstance(event, BytesSkipped) or event.damaged or not event.message.well_formed:
            self._sessions.clear()
        elif event.message.body.get("session_epoch", -1) > 0:
            self._follow(event.message.body)
        elif self.granted and opens_session(event.message.body):
            connection.flags |= _IRREGULAR

    def offsets(self, asked: Mapping[str, Any]) -> Mapping[Place, int]:
        """The offset of every partition that a request asks for; nothing where its session is not known."""
        if asked.get("session_epoch", -1) > 0:
            session = self._sessions.get(asked.get("session_id", 0))
            return session.offsets if session else {}
        return _offsets(asked)

    def behind(self, asked: Mapping[str, Any], body: Mapping[str, Any]) -> dict[Place, tuple[int, int]]:
        """The partitions of a request, as answered now or before in its session, that have more: offset and end."""
        if asked.get("session_epoch", -1) > 0:
            session = self._sessions.get(asked.get("session_id", 0))
            if session is None or not session.behind:
                return {}
            return {place: (session.offsets[place], session.ends[place]) for place in session.behind}
        if _is_at_the_end(asked, body):
            return {}
        offsets = _offsets(asked)
        return {
            place: (offsets[place], end)
            for place, end in _ends(asked, body).items()
            if place in offsets and end > offsets[place]
        }

    def _follow(self, body: Mapping[str, Any]) -> None:
        session_id = body.get("session_id", 0)
        session = self._sessions.get(session_id)
        if session is None:
            return
        for topic in body.get("forgotten_topics_data") or ():
            name = topic_of(topic)
            for partition in topic.get("partitions") or ():
                session.forget((name, partition))
        if body.get("topics"):
            session.ask(_offsets(body))
        if len(session.offsets) > _MOST_PARTITIONS:
            del self._sessions[session_id]

    def _response(self, event: ResponseReceived, connection: ConnectionState) -> None:
        self.is_empty, self.refused = False, []
        message, asked = event.message, event.request_body
        if message is None or event.damaged or not message.well_formed:
            return
        body = message.body
        answers = body.get("responses")
        self.is_empty = not answers or not any(
            each.get("records") for topic in answers for each in topic.get("partitions") or ()
        )
        if connection.flags & _REFUSED:
            self.refused = refusals(body, "partitions", "partition_index")
        if asked is None:
            return
        if (epoch := asked.get("session_epoch", -1)) >= 0:
            opened = body.get("session_id")
            self.granted = self.granted + 1 if opened and opens_session(asked) else 0
            if epoch == 0 and opened:
                self._open(opened, asked, body)
            elif answers and (known := self._sessions.get(asked.get("session_id", 0))) is not None:
                known.answer(_ends(asked, body))
        if self.is_empty and self.behind(asked, body):
            connection.flags |= _STARVED

    def _open(self, session_id: int, asked: Mapping[str, Any], body: Mapping[str, Any]) -> None:
        offsets = _offsets(asked)
        if len(offsets) <= _MOST_PARTITIONS:
            self._sessions[session_id] = session = _Session()
            session.ask(offsets)
            session.answer(_ends(asked, body))


def _offsets(body: Mapping[str, Any]) -> dict[Place, int]:
    return {
        (name, each.get("partition", 0)): each.get("fetch_offset", 0)
        for topic in body.get("topics") or ()
        for name in (topic_of(topic),)
        for each in topic.get("partitions") or ()
    }


def _ends(asked: Mapping[str, Any], body: Mapping[str, Any]) -> dict[Place, int]:
    """How far each partition of a response can be read; -1 where it cannot be read here."""
    end = end_for(asked)
    return {
        (name, each.get("partition_index", 0)): -1
        if each.get("error_code") or each.get("preferred_read_replica", -1) >= 0
        else each.get(end, -1)
        for topic in body.get("responses") or ()
        for name in (topic_of(topic),)
        for each in topic.get("partitions") or ()
    }


def _is_at_the_end(asked: Mapping[str, Any], body: Mapping[str, Any]) -> bool:
    """Whether there is nothing more: the ordinary empty response, in the order of its request, found out cheaply."""
    topics, answers, end = asked.get("topics") or (), body.get("responses") or (), end_for(asked)
    try:
        for topic, answer in zip(topics, answers, strict=True):
            if topic_of(topic) != topic_of(answer):
                return False
            for one, other in zip(topic["partitions"], answer["partitions"], strict=True):
                if other[end] > one["fetch_offset"] or one["partition"] != other["partition_index"]:
                    return False
    except (KeyError, TypeError, ValueError):  # fields that are not there, a null, not as many
        return False
    return True
