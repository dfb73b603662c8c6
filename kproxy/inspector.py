"""Inspector: the bytes of connections in, trace lines out. The same for a live relay, a capture and a replay."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from dissectors import embedded, rules, secrets, summary
from dissectors.connection import Connection
from dissectors.conversation import Cluster, Conversation
from dissectors.events import (
    ConnectionEnded,
    ConnectionOpened,
    DeadlinePassed,
    Direction,
    Event,
    FrameInPart,
    FramingLost,
    RequestReceived,
    ResponseReceived,
    TokenReceived,
)
from dissectors.findings import Finding
from dissectors.framing import MAX_DECODED_BYTES
from dissectors.message import Message
from kproxy.eventlines import finding_entry, finding_line, gap_line, token_line
from kproxy.trace.clock import timestamp
from kproxy.trace.lines import (
    FORMAT,
    CloseLine,
    Detail,
    ErrorEntry,
    FindingEntry,
    Line,
    OpenLine,
    RepeatEntry,
    RequestLine,
    ResponseLine,
    TopicEntry,
)


@dataclass(slots=True)
class _Asked:
    """What a response line repeats of its request, kept while that is in flight."""

    ts: str
    topics: list[TopicEntry]
    group_id: str | None
    member_id: str | None
    transactional_id: str | None


@dataclass(slots=True)
class _State:
    connection_id: str
    client: str
    server: str
    connection: Connection
    conversation: Conversation
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    frames: list[int] = field(default_factory=lambda: [0, 0])
    in_part: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0), (0, 0)])


class Inspector:
    """Watches any number of connections and says what was said, as trace lines.

    Args:
        name: What connection ids begin with; unique among the traces that are read together.
        detail: How much of each frame goes into its line.
        excerpts: Findings have the bytes around their spans, which they have above `Detail.SUMMARY` anyway.
    """

    def __init__(self, name: str, detail: Detail = Detail.SUMMARY, *, excerpts: bool = False) -> None:
        self._name = name
        self._detail = detail
        self._excerpts = excerpts or detail is not Detail.SUMMARY
        # A body, and a frame in base64, take a multiple of the frame's memory.
        share = {Detail.SUMMARY: 1, Detail.FULL: 2, Detail.RAW: 4}[detail]
        self._max_decoded_bytes = MAX_DECODED_BYTES // share
        self._cluster = Cluster()
        self._connections: dict[int, _State] = {}

    def open(
        self,
        number: int,
        client: str,
        server: str,
        *,
        at: int,
        listener: str | None = None,
        tls: bool = False,
        midstream: bool = False,
    ) -> list[Line]:
        """A connection begins. `midstream`: what comes first may be the middle of a frame."""
        state = _State(
            f"{self._name}-{number}",
            client,
            server,
            Connection(midstream=midstream, max_decoded_bytes=self._max_decoded_bytes),
            Conversation(self._cluster, f"{self._name}-{number}"),
        )
        lines = self.tick(at=at)
        self._connections[number] = state
        lines.append(
            OpenLine(
                v=FORMAT,
                ts=timestamp(at),
                connection_id=state.connection_id,
                client=client,
                server=server,
                listener=listener,
                tls=tls,
                midstream=midstream,
            )
        )
        return lines + self._lines(state, [ConnectionOpened(at, client, server, listener, tls, midstream)])

    def tick(self, *, at: int) -> list[Line]:
        """Time has come to `at`: what should have happened before and has not."""
        return [
            finding_line(conversation.connection_id, event, finding)
            for conversation, event in self._cluster.deadlines.passed(at)
            for finding in rules.check(event, conversation)
        ]

    def data(self, number: int, direction: Direction, data: bytes, *, at: int) -> list[Line]:
        """The next bytes of one direction."""
        state = self._connections[number]
        state.bytes[direction] += len(data)
        passed = self.tick(at=at) if self._cluster.deadlines.is_due(at) else None
        connection = state.connection
        events = connection.receive_data(direction, data, at=at)
        if (in_part := connection.in_part(direction)) != state.in_part[direction]:
            state.in_part[direction] = in_part
            events.append(FrameInPart(at, direction, *in_part))
        lines = self._lines(state, events)
        return passed + lines if passed else lines

    def lose(
        self, number: int, direction: Direction, size: int, *, at: int, reason: str, frames: int | None = None
    ) -> list[Line]:
        """Bytes that went by unseen; `frames`, if known, says how many whole ones they held before the next begins."""
        state = self._connections[number]
        state.bytes[direction] += size
        state.frames[direction] += frames or 0
        events = state.connection.lose_data(direction, size, at=at, reason=reason, frames=frames)
        return self._lines(state, events)

    def skip(self, number: int, direction: Direction, head: bytes, size: int, *, at: int, reason: str) -> list[Line]:
        """A whole frame that went by; only its first bytes are known."""
        state = self._connections[number]
        state.bytes[direction] += size + 4
        return self._lines(state, state.connection.skip_frame(direction, head, size, at=at, reason=reason))

    def close(self, number: int, *, at: int, by: str | None = None, how: str | None = None) -> list[Line]:
        """A connection is over, `by` whom (client, server, proxy) and `how` (fin, reset, ...)."""
        lines = self.tick(at=at)
        state = self._connections.pop(number)
        events = state.connection.close(at=at)
        ended = events[-1]
        assert isinstance(ended, ConnectionEnded)
        ended.by, ended.how = by, how
        lines += self._lines(state, events)
        lines.append(
            CloseLine(
                v=FORMAT,
                ts=timestamp(at),
                connection_id=state.connection_id,
                client=state.client,
                server=state.server,
                by=by,
                how=how,
                request_bytes=state.bytes[0],
                response_bytes=state.bytes[1],
                requests=state.frames[0],
                responses=state.frames[1],
                unanswered=len(ended.unanswered),
                repeated=[RepeatEntry(*which, count) for which, count in sorted(state.conversation.repeated.items())],
            )
        )
        return lines

    def close_all(self, *, at: int, how: str) -> Iterable[Line]:
        """Close what is still open, e.g. where a capture ends."""
        for number in list(self._connections):
            yield from self.close(number, at=at, how=how)

    def _lines(self, state: _State, events: list[Event]) -> list[Line]:
        lines: list[Line] = []
        conversation = state.conversation
        for event in events:
            conversation.hear(event)
            findings = rules.check(event, conversation)
            if isinstance(event, RequestReceived):
                lines.append(self._request(state, event, findings))
                continue
            if isinstance(event, ResponseReceived):
                lines.append(self._response(state, event, findings))
                continue
            if isinstance(event, TokenReceived):
                state.frames[event.direction] += 1
                lines.append(token_line(state.connection_id, state.client, state.server, event))
            elif not isinstance(event, ConnectionOpened | ConnectionEnded | FramingLost | FrameInPart | DeadlinePassed):
                lines.append(gap_line(state.connection_id, event))
            lines.extend(finding_line(state.connection_id, event, finding) for finding in findings)
        return lines

    def _request(self, state: _State, event: RequestReceived, findings: list[Finding]) -> RequestLine:
        state.frames[0] += 1
        message, body = event.message, event.message.body
        asked = event.note = _Asked(
            timestamp(event.at),
            self._topics(message),
            summary.group_id(message),
            body.get("member_id"),
            summary.transactional_id(message),
        )
        line = RequestLine(
            v=FORMAT,
            ts=asked.ts,
            connection_id=state.connection_id,
            client=state.client,
            server=state.server,
            api=message.api,
            api_key=message.api_key,
            api_version=message.version,
            correlation_id=message.correlation_id,
            client_id=message.client_id,
            size=event.size + 4,
            offset=event.offset,
            topics=asked.topics,
            group_id=asked.group_id,
            member_id=asked.member_id,
            transactional_id=asked.transactional_id,
            findings=self._entries(event, findings) if findings else [],
            acks=body.get("acks"),
            not_decoded=event.damaged or message.opaque,
        )
        self._add_detail(line, message)
        return line

    def _response(self, state: _State, event: ResponseReceived, findings: list[Finding]) -> ResponseLine:
        state.frames[1] += 1
        line = ResponseLine(
            v=FORMAT,
            ts=timestamp(event.at),
            connection_id=state.connection_id,
            client=state.client,
            server=state.server,
            correlation_id=event.correlation_id,
            size=event.size + 4,
            offset=event.offset,
            findings=self._entries(event, findings) if findings else [],
            not_decoded=event.damaged,
        )
        if event.request is None or event.message is None:
            line.not_decoded = line.not_decoded or "no request to it is known"
            return line
        request, message = event.request, event.message
        body = message.body
        asked: _Asked = request.note
        line.api, line.api_key, line.api_version = message.api, message.api_key, message.version
        line.client_id = request.message.client_id
        line.group_id = asked.group_id or summary.group_id(message)
        line.member_id = asked.member_id or body.get("member_id")
        line.transactional_id = asked.transactional_id
        line.request_ts = asked.ts
        line.latency_us = (event.at - request.at) // 1000
        line.request_size = request.size + 4
        if refused := summary.errors(message):
            line.errors = [ErrorEntry(*error) for error in refused]
        line.throttle_time_ms = body.get("throttle_time_ms")
        line.not_decoded = event.damaged or message.opaque
        # A Produce tells of its records in the request, a Fetch in the response.
        topics = asked.topics
        line.topics = topics if topics and topics[0].bytes is not None else self._topics(message) or topics
        self._add_detail(line, message)
        return line

    def _entries(self, event: RequestReceived | ResponseReceived, findings: list[Finding]) -> list[FindingEntry]:
        shown = self._to_show(event) if self._excerpts else None
        return [finding_entry(finding, shown) for finding in findings]

    def _to_show(self, event: RequestReceived | ResponseReceived) -> bytes | None:
        """The frame without its secrets."""
        message = event.message
        if event.damaged or (message is not None and message.opaque):
            return None  # what cannot be read may be a secret, wherever it stands
        if message is not None:
            return secrets.redacted_frame(message)
        assert isinstance(event, ResponseReceived)  # that nobody asked for: its head is all that is known
        return event.size.to_bytes(4, "big") + event.correlation_id.to_bytes(4, "big", signed=True)

    def _topics(self, message: Message) -> list[TopicEntry]:
        topics = summary.topics(message)
        if not topics:
            return []
        known = self._cluster.topic_names
        return [
            TopicEntry(name or (known.get(topic_id) if topic_id else None), topic_id, partitions, size, records)
            for name, topic_id, partitions, size, records in topics
        ]

    def _add_detail(self, line: RequestLine | ResponseLine, message: Message) -> None:
        if self._detail is Detail.SUMMARY or line.not_decoded:
            return
        line.body = embedded.presentable(message, self._cluster.topic_names.get)
        if self._detail is Detail.RAW:
            line.frame = base64.b64encode(secrets.redacted_frame(message)).decode("ascii")
