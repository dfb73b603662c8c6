"""Frames as trace lines: the facts, and as much of their contents as is wanted."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

from dissectors import embedded
from dissectors.connections import addresses
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.embedded import redaction
from dissectors.findings import Finding
from dissectors.messages import summary
from dissectors.messages.message import Message
from dissectors.trackers.brokers import endpoints
from dissectors.trackers.state import API_VERSIONS, RunState
from kproxy.inspection.event_lines import Ends, finding_entry
from kproxy.trace.clock import timestamp
from kproxy.trace.lines import (
    FORMAT,
    Detail,
    ErrorEntry,
    FindingEntry,
    RequestLine,
    ResponseLine,
    TopicEntry,
)

#: APIs whose responses name the cluster and its brokers.
_NAME_CLUSTER = ("Metadata", "DescribeCluster")


@dataclass(slots=True)
class _Asked:
    """What a response line repeats of its request, kept while that is in flight."""

    ts: str
    principal: str | None
    topics: list[TopicEntry]
    group_id: str | None
    member_id: str | None
    generation_id: int | None
    transactional_id: str | None
    findings: list[FindingEntry]


class FrameLines:
    """Makes the lines.

    Args:
        cluster: Knows the names of topic ids.
        detail: How much of each frame goes into its line.
        excerpts: Findings have the bytes around their spans, which they have above `Detail.SUMMARY` anyway.

    Attributes:
        with_frame: Whether a line has the bytes of its frame; it may change at any time.
    """

    def __init__(self, cluster: RunState, detail: Detail, *, excerpts: bool) -> None:
        self._run_state = cluster
        self._detail = detail
        self._excerpts = excerpts or detail is not Detail.SUMMARY
        self.with_frame = detail is Detail.RAW

    def request(self, ends: Ends, event: RequestReceived, findings: list[Finding]) -> RequestLine:
        """The line of a request; what its response will repeat is kept as the event's note."""
        message = event.message
        group_id = summary.group_id(message)
        event.note = _Asked(
            timestamp(event.at),
            ends.principal,
            self._topics(message),
            group_id,
            message.body.get("member_id"),
            None if group_id is None else summary.generation_id(message),
            summary.transactional_id(message),
            self._entries(event, findings) if findings else [],
        )
        return self.again(ends, event)

    def again(self, ends: Ends, event: RequestReceived) -> RequestLine:
        """The line of a request that had one: the same each time, but for its detail."""
        message, body = event.message, event.message.body
        asked: _Asked = event.note
        line = RequestLine(
            v=FORMAT,
            ts=asked.ts,
            connection_id=ends.connection_id,
            client=ends.client,
            server=ends.server,
            api=message.api,
            api_key=message.api_key,
            api_version=message.version,
            correlation_id=message.correlation_id,
            client_id=message.client_id,
            principal=asked.principal,
            size=event.size + 4,
            offset=event.offset,
            topics=asked.topics,
            group_id=asked.group_id,
            member_id=asked.member_id,
            generation_id=asked.generation_id,
            transactional_id=asked.transactional_id,
            findings=asked.findings,
            acks=body.get("acks"),
            not_decoded=event.damaged or message.opaque,
        )
        if message.api_key == API_VERSIONS:
            _add_software(line, body)
        self._add_detail(line, message)
        return line

    def response(self, ends: Ends, event: ResponseReceived, findings: list[Finding]) -> ResponseLine:
        """The line of a response."""
        line = ResponseLine(
            v=FORMAT,
            ts=timestamp(event.at),
            connection_id=ends.connection_id,
            client=ends.client,
            server=ends.server,
            correlation_id=event.correlation_id,
            principal=ends.principal,
            size=event.size + 4,
            offset=event.offset,
            findings=self._entries(event, findings) if findings else [],
            not_decoded=event.damaged,
        )
        if event.request is None or event.message is None:
            line.not_decoded = line.not_decoded or "its request is unknown"
            return line
        request, message = event.request, event.message
        body = message.body
        asked: _Asked = request.note
        line.api, line.api_key, line.api_version = message.api, message.api_key, message.version
        line.client_id = request.message.client_id
        line.group_id = asked.group_id or summary.group_id(message)
        line.member_id = asked.member_id or body.get("member_id")
        if line.group_id is not None:
            own = summary.generation_id(message)
            line.generation_id = asked.generation_id if own is None else own
        line.transactional_id = asked.transactional_id
        line.request_offset = request.offset
        line.request_ts = asked.ts
        line.latency_us = (event.at - request.at) // 1000
        line.request_size = request.size + 4
        if refused := summary.errors(message):
            line.errors = [ErrorEntry(*error) for error in refused]
        line.throttle_time_ms = body.get("throttle_time_ms")
        if message.api_key == API_VERSIONS:
            _add_software(line, request.message.body)
        elif message.api in _NAME_CLUSTER and message.reads_well:
            line.cluster_id = body.get("cluster_id") or None
            line.brokers = [addresses.join(each.host, each.port) for each in endpoints(message)]
        line.not_decoded = event.damaged or message.opaque
        # A Produce tells of its records in the request, a Fetch in the response.
        topics = asked.topics
        line.topics = (
            topics if topics and topics[0].bytes is not None else self._topics(message, request.message) or topics
        )
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
            return redaction.redacted_frame(message)
        assert isinstance(event, ResponseReceived)  # that nobody asked for: its head is all that is known
        return event.size.to_bytes(4, "big") + event.correlation_id.to_bytes(4, "big", signed=True)

    def _topics(self, message: Message, request: Message | None = None) -> list[TopicEntry]:
        topics = summary.topics(message, request)
        if not topics:
            return []
        known = self._run_state.topic_names
        return [
            TopicEntry(
                name or (known.get(topic_id) if topic_id else None),
                topic_id,
                partitions,
                size,
                records,
                batches,
                list(codecs),
                list(sizes),
                lag,
            )
            for name, topic_id, partitions, size, records, batches, codecs, sizes, lag in topics
        ]

    def _add_detail(self, line: RequestLine | ResponseLine, message: Message) -> None:
        if line.not_decoded:
            return
        if self._detail is not Detail.SUMMARY:
            line.body = embedded.presentable(message, self._run_state.topic_names.get)
        if self.with_frame:
            line.frame = base64.b64encode(redaction.redacted_frame(message)).decode("ascii")


def _add_software(line: RequestLine | ResponseLine, asked: dict[str, Any]) -> None:
    line.software_name, line.software_version = asked.get("client_software_name"), asked.get("client_software_version")
