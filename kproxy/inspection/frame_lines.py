"""Frames as trace lines: facts, and content up to the configured detail."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from dissectors import embedded
from dissectors.connections import addresses
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.embedded import redaction
from dissectors.findings import Finding
from dissectors.messages import summary
from dissectors.messages.message import Message
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.brokers import endpoints
from dissectors.trackers.state import API_VERSIONS, RunState
from kproxy.inspection import share_lines, transaction_lines
from kproxy.inspection.event_lines import ConnectionEnds, finding_entry
from kproxy.inspection.record_budget import RecordBudget
from kproxy.inspection.rewrites import rewritten_entries
from kproxy.inspection.withheld_records import frame_without_records, leave_out_damaged, withhold_records
from kproxy.trace.lines import (
    FORMAT,
    Detail,
    ErrorEntry,
    FindingEntry,
    RequestLine,
    ResponseLine,
    TopicEntry,
)
from kproxy.trace.timestamps import timestamp

if TYPE_CHECKING:
    from kproxy.inspection.record_values import DecodedRecords, RecordValues

FETCH, WRITE_TXN_MARKERS = ApiKey.FETCH.value, ApiKey.WRITE_TXN_MARKERS.value
PRODUCE, SYNC_GROUP = ApiKey.PRODUCE, ApiKey.SYNC_GROUP
STREAMS_GROUP_HEARTBEAT = ApiKey.STREAMS_GROUP_HEARTBEAT.value
#: APIs whose responses give a member of a group partitions, tasks or records, under names other than `topics`.
_ASSIGNING_APIS = share_lines.API_KEYS | {SYNC_GROUP.value, STREAMS_GROUP_HEARTBEAT}

#: APIs whose responses name the cluster and its brokers.
_CLUSTER_APIS = {ApiKey.METADATA.value, ApiKey.DESCRIBE_CLUSTER.value}
#: APIs whose response lines have facts that no other lines have.
_APIS_WITH_FACTS = _ASSIGNING_APIS | _CLUSTER_APIS | {API_VERSIONS}


class FrameLines:
    """Makes lines of frames.

    Args:
        run_state: The state of the run, which has the names of topic ids.
        detail: How much of each frame its line has.
        excerpts: Whether findings have excerpts even at `Detail.SUMMARY`.
        facts: Whether lines have the facts in bodies: topics, groups, errors, brokers; otherwise they have no detail.
        record_values: Decodes the records in bodies; None leaves them as bytes.
        withholds_records: Whether bodies and excerpts have only the sizes of keys, values and headers.
        record_budget: How much work goes into records; by default, as much as a running proxy may spend.

    Attributes:
        with_frame: Whether lines have the bytes of their frames. It may change at any time.
    """

    def __init__(
        self,
        run_state: RunState,
        detail: Detail,
        *,
        excerpts: bool,
        facts: bool = True,
        record_values: RecordValues | None = None,
        withholds_records: bool = False,
        record_budget: RecordBudget | None = None,
    ) -> None:
        self._run_state = run_state
        self._record_budget = record_budget or RecordBudget()
        self._record_values = record_values
        self._withholds_records = withholds_records
        self._detail = detail
        self._facts = facts
        self._excerpts = excerpts or detail is not Detail.SUMMARY
        self.with_frame = detail is Detail.RAW

    @property
    def with_frame(self) -> bool:
        return self._with_frame

    @with_frame.setter
    def with_frame(self, enabled: bool) -> None:
        self._with_frame = enabled
        self._adds_detail = self._facts and (enabled or self._detail is not Detail.SUMMARY)

    def request(
        self,
        ends: ConnectionEnds,
        event: RequestReceived,
        findings: list[Finding],
        decoded: DecodedRecords | None = None,
    ) -> RequestLine:
        """Return the line of a request. Store it without detail in the event, because the response line repeats facts.

        `decoded` is the result of `decode_records`.
        """
        message, body = event.message, event.message.body
        line = RequestLine(
            v=FORMAT,
            ts=timestamp(event.at),
            connection_id=ends.connection_id,
            client=ends.client,
            server=ends.server,
            api=message.api,
            api_key=message.api_key,
            api_version=message.version,
            correlation_id=message.correlation_id,
            client_id=message.client_id,
            size=event.size + 4,
            offset=event.offset,
            findings=self._finding_entries(event, findings) if findings else [],
        )
        # Attributes that are usually None are set below: each keyword argument takes time.
        if (principal := ends.principal) is not None:
            line.principal = principal
        if message.client_instance_id is not None:
            line.client_instance_id = message.client_instance_id
        if self._facts:
            facts = summary.facts_in(message)
            if facts.topics:
                line.topics = self._topic_entries(message)
            if facts.group and (group_id := summary.group_id(message)) is not None:
                line.group_id, line.generation_id = group_id, summary.generation_id(message)
            if facts.member:
                line.member_id = body.get("member_id")
            if facts.transaction:
                line.transactional_id = summary.transactional_id(message)
                if line.transactional_id is not None:
                    transaction_lines.add_transaction(line, message)
            elif message.api_key == WRITE_TXN_MARKERS:
                transaction_lines.add_ends(line, message, self._run_state.topic_names)
        if (acks := body.get("acks")) is not None:
            line.acks = acks
        if event.damaged or message.opaque:
            line.not_decoded = event.damaged or message.opaque
        if message.api_key == API_VERSIONS:
            _add_software(line, body)
        if message.replaced_by is not None:
            line.rewritten = rewritten_entries(message)
        event.line = line
        return self.repeat_request(event, decoded) if self._adds_detail else line

    def repeat_request(self, event: RequestReceived, decoded: DecodedRecords | None = None) -> RequestLine:
        """Return a copy of the line that `request` has made; only its detail may differ."""
        line: RequestLine = copy(event.line)
        if self._adds_detail:
            self._add_detail(line, event.message, event.at, decoded)
        return line

    def response(
        self,
        ends: ConnectionEnds,
        event: ResponseReceived,
        findings: list[Finding],
        decoded: DecodedRecords | None = None,
    ) -> ResponseLine:
        """Return the line of a response. `decoded` is the result of `decode_records`."""
        request, message = event.request, event.message
        entries = self._finding_entries(event, findings) if findings else []
        if request is None or message is None:
            return ResponseLine(
                v=FORMAT,
                ts=timestamp(event.at),
                connection_id=ends.connection_id,
                client=ends.client,
                server=ends.server,
                correlation_id=event.correlation_id,
                principal=ends.principal,
                size=event.size + 4,
                offset=event.offset,
                findings=entries,
                not_decoded=event.damaged or "its request is unknown",
            )
        request_line: RequestLine = request.line
        line = ResponseLine(
            v=FORMAT,
            ts=timestamp(event.at),
            connection_id=ends.connection_id,
            client=ends.client,
            server=ends.server,
            api=message.api,
            api_key=message.api_key,
            api_version=message.version,
            correlation_id=event.correlation_id,
            client_id=request_line.client_id,
            size=event.size + 4,
            offset=event.offset,
            request_offset=request_line.offset,
            request_ts=request_line.ts,
            latency_us=(event.at - request.at) // 1000,
            request_size=request_line.size,
            findings=entries,
        )
        if (principal := ends.principal) is not None:
            line.principal = principal
        if request.message.client_instance_id is not None:
            line.client_instance_id = request.message.client_instance_id
        if event.damaged or message.opaque:
            line.not_decoded = event.damaged or message.opaque
        if not self._facts:
            return line
        body, facts = message.body, summary.facts_in(message)
        group_id = request_line.group_id or (summary.group_id(message) if facts.group else None)
        if group_id is not None:
            response_generation = summary.generation_id(message)
            line.group_id = group_id
            line.generation_id = request_line.generation_id if response_generation is None else response_generation
        if facts.member or request_line.member_id:
            line.member_id = request_line.member_id or body.get("member_id")
        if request_line.transactional_id is not None:
            line.transactional_id = request_line.transactional_id
            transaction_lines.add_response(line, request_line, message)
        if message.may_have_errors and (errors := summary.errors(message)):
            line.errors = [ErrorEntry(*error) for error in errors]
        if (throttle_time_ms := body.get("throttle_time_ms")) is not None:
            line.throttle_time_ms = throttle_time_ms
        if message.api_key == FETCH:
            transaction_lines.add_ends(line, message, self._run_state.topic_names)
        elif message.api_key in _APIS_WITH_FACTS:
            self._add_facts(line, event, request, message)
        # A Produce has its records in the request, a Fetch in the response.
        topics = request_line.topics
        if facts.topics and not (topics and topics[0].bytes is not None):
            topics = self._topic_entries(message, request.message, event.at) or topics
        elif topics and message.api_key == PRODUCE and message.well_formed:
            topics = _with_base_offsets(topics, message.body)
        if topics:
            line.topics = topics
        if message.replaced_by is not None:
            line.rewritten = rewritten_entries(message)
        if self._adds_detail:
            self._add_detail(line, message, event.at, decoded)
        return line

    def decode_records(self, event: RequestReceived | ResponseReceived) -> DecodedRecords | None:
        """Return the body of a frame with decoded keys and values, for rules and its line; None if it has none."""
        message = event.message
        if self._record_values is None or message is None or event.damaged or message.opaque:
            return None
        return self._decode(message, self._record_values, event.at)

    def _decode(self, message: Message, record_values: RecordValues, at: int) -> DecodedRecords:
        topic_names = self._run_state.topic_names.get
        with self._record_budget.allowance(len(message.frame), at=at, decodes_values=True) as allowance:
            body = embedded.presentable_body(message, topic_names, allowance)
            if record_values.may_mask(message):
                leave_out_damaged(message, body)
            return record_values.decode(message, body, topic_names, allowance)

    def _finding_entries(
        self, event: RequestReceived | ResponseReceived, findings: list[Finding]
    ) -> list[FindingEntry]:
        frame = self._redacted_frame(event) if self._excerpts else None
        return [finding_entry(finding, frame) for finding in findings]

    def _redacted_frame(self, event: RequestReceived | ResponseReceived) -> bytes | None:
        """Return the frame with its secrets zeroed, None if secrets cannot be located."""
        message = event.message
        if event.damaged or (message is not None and message.opaque):
            return None  # bytes that are not decoded may be a secret
        if message is not None:
            if self._record_values is not None and self._record_values.may_mask(message):
                return None
            return frame_without_records(message) if self._withholds_records else redaction.redacted_frame(message)
        assert isinstance(event, ResponseReceived)  # without a request, only the header is known
        return event.size.to_bytes(4, "big") + event.correlation_id.to_bytes(4, "big", signed=True)

    def _add_facts(
        self, line: ResponseLine, event: ResponseReceived, request: RequestReceived, message: Message
    ) -> None:
        """Add the client's software, the brokers, or the partitions, tasks or records that a group member gets."""
        if message.api_key == API_VERSIONS:
            _add_software(line, request.message.body)
        elif not message.well_formed:
            return
        elif message.api_key in _CLUSTER_APIS:
            line.cluster_id = message.body.get("cluster_id") or None
            line.brokers = [addresses.join(endpoint.host, endpoint.port) for endpoint in endpoints(message)]
        elif message.api_key == SYNC_GROUP:
            line.topics = _assigned_partitions(message)
        elif message.api_key == STREAMS_GROUP_HEARTBEAT:
            line.tasks = [
                f"{task.get('subtopology_id', '')}_{number}"
                for task in message.body.get("active_tasks") or ()
                for number in task.get("partitions") or ()
            ]
        else:
            share_lines.add_records(line, event.request_body, message, self._run_state.topic_names)

    def _topic_entries(self, message: Message, request: Message | None = None, at: int = 0) -> list[TopicEntry]:
        topics = summary.topics(message, request, at=at, make=TopicEntry)
        for entry in topics:
            if not entry.topic and entry.topic_id:
                entry.topic = self._run_state.topic_names.get(entry.topic_id)
        return topics

    def _add_detail(
        self, line: RequestLine | ResponseLine, message: Message, at: int, decoded: DecodedRecords | None
    ) -> None:
        if line.not_decoded:
            return
        if self._detail is not Detail.SUMMARY:
            if self._record_values is None:
                with self._record_budget.allowance(len(message.frame), at=at, decodes_values=False) as allowance:
                    line.body = embedded.presentable_body(message, self._run_state.topic_names.get, allowance)
                if self._withholds_records:
                    line.body = withhold_records(message, line.body)
            else:
                line.body = (decoded or self._decode(message, self._record_values, at)).body
        is_masked = self._record_values is not None and self._record_values.may_mask(message)
        if self.with_frame and not is_masked:
            line.frame = base64.b64encode(redaction.redacted_frame(message)).decode("ascii")


def _assigned_partitions(message: Message) -> list[TopicEntry]:
    """Return the partitions that a SyncGroup response assigns to a consumer; empty for other clients."""
    assignment = embedded.expand(message).get("assignment")
    if not isinstance(assignment, dict) or assignment.get("type") != "ConsumerProtocolAssignment":
        return []
    return [
        TopicEntry(topic=topic.get("topic"), partitions=list(topic.get("partitions") or ()))
        for topic in (assignment.get("data") or {}).get("assigned_partitions") or ()
    ]


def _with_base_offsets(topics: list[TopicEntry], body: dict[str, Any]) -> list[TopicEntry]:
    """Return the topics of a Produce request with the offsets that its response assigns."""
    responses: Sequence[Any] = body.get("responses") or ()
    if len(topics) == len(responses) == 1:  # usual, and needs no index
        entry, topic = topics[0], responses[0]
        rows: Sequence[Any] = topic["partition_responses"] or ()
        is_single, names = len(rows) == 1 and entry.partitions == [rows[0]["index"]], (entry.topic, entry.topic_id)
        if is_single and (topic.get("name") or topic.get("topic_id")) in names:
            offset = rows[0]["base_offset"]
            return [replace(entry, offsets=[offset])] if offset >= 0 else topics
    by_topic = {topic.get("name") or topic.get("topic_id"): topic for topic in responses}
    entries = []
    for entry in topics:
        if (topic := by_topic.get(entry.topic) or by_topic.get(entry.topic_id)) is not None:
            assigned = {row["index"]: row["base_offset"] for row in topic["partition_responses"] or ()}
            offsets = [assigned.get(partition, -1) for partition in entry.partitions]
            if max(offsets, default=-1) >= 0:
                known_offsets = [offset if offset >= 0 else None for offset in offsets] if min(offsets) < 0 else offsets
                entry = replace(entry, offsets=known_offsets)  # the request's line shares the entry
        entries.append(entry)
    return entries


def _add_software(line: RequestLine | ResponseLine, body: dict[str, Any]) -> None:
    line.software_name, line.software_version = body.get("client_software_name"), body.get("client_software_version")
