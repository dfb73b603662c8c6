"""RecordedTraffic: the exchanges of a trace by connection, its findings, and the topic names by id."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec.structs import replace

from kproxy.trace.lines import CloseLine, FindingEntry, FindingLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.pairing import RequestPairing

#: Findings about what kproxy could observe, not about what the peers sent.
_VISIBILITY: Final = "K"


@dataclass(slots=True)
class RecordedExchange:
    """A request with its response, if there is one."""

    request: RequestLine
    response: ResponseLine | None = None

    @property
    def api(self) -> str:
        """Kafka's name for the API, ``API n`` if it is unknown."""
        return self.request.api or f"API {self.request.api_key}"

    @property
    def version(self) -> int:
        """The version of the request; -1 if it is unknown."""
        return -1 if self.request.api_version is None else self.request.api_version

    @property
    def place(self) -> str:
        """The exchange in the notation of `kproxy dissect` and `kproxy export-test`: ``#0:12``."""
        return place_of(self.request)


def place_of(line: RequestLine | ResponseLine) -> str:
    """Return the connection's number and the correlation id of a line: ``#0:12``."""
    return f"#{line.connection_id.rpartition('-')[2]}:{line.correlation_id}"


@dataclass(slots=True)
class RecordedConnection:
    """The exchanges of a connection in the order of their requests. `client_id` comes from the first request."""

    client_id: str | None
    exchanges: list[RecordedExchange] = field(default_factory=list)


@dataclass(slots=True)
class RecordedTraffic:
    """The contents of a trace. `findings` has the first message per code, API and direction.

    API and direction are empty for findings about the whole run.
    """

    name: str
    connections: list[RecordedConnection] = field(default_factory=list)
    findings: dict[tuple[str, str, str], str] = field(default_factory=dict)
    topic_names: dict[str, str] = field(default_factory=dict)
    #: Whether a frame that kproxy decoded has no body, because the trace was written with less detail.
    lacks_bodies: bool = False

    @property
    def requests(self) -> int:
        """The number of requests."""
        return sum(len(connection.exchanges) for connection in self.connections)


def collect_traffic(
    name: str,
    lines: Iterable[Line],
    *,
    includes_client_findings: bool = True,
    mask_pattern: re.Pattern[str] | None = None,
) -> RecordedTraffic:
    """Collect the lines of a trace at full detail. A response without a request yields no exchange, only its findings.

    Args:
        name: The name of the trace.
        lines: Its lines, in order.
        includes_client_findings: Whether to include findings that blame the client.
        mask_pattern: Its matches in text, such as the names of topics, are replaced by ``*``.
    """
    traffic = RecordedTraffic(name)
    connections: dict[str, RecordedConnection] = {}
    pairing: RequestPairing[RecordedExchange] = RequestPairing()
    for line in lines if mask_pattern is None else (_mask_line(line, mask_pattern) for line in lines):
        if isinstance(line, FindingLine):
            if includes_client_findings or line.blame != "client":
                _add_finding(traffic, line, "", line.direction or "")
            continue
        if isinstance(line, OpenLine | CloseLine):
            pairing.end(line)
        if not isinstance(line, RequestLine | ResponseLine):
            continue
        kind = "request" if isinstance(line, RequestLine) else "response"
        for finding in line.findings:
            if includes_client_findings or finding.blame != "client":
                _add_finding(traffic, finding, line.api or "", kind)
        for topic in line.topics:
            if topic.topic and topic.topic_id:
                traffic.topic_names[topic.topic_id] = topic.topic
        traffic.lacks_bodies |= line.api is not None and line.body is None and line.not_decoded is None
        if isinstance(line, RequestLine):
            connection = connections.get(line.connection_id)
            if connection is None:
                connection = connections[line.connection_id] = RecordedConnection(line.client_id)
                traffic.connections.append(connection)
            exchange = RecordedExchange(line)
            pairing.add(line, exchange)
            connection.exchanges.append(exchange)
        elif (matched := pairing.match(line)) is not None:
            matched.response = line
    return traffic


def _mask_line(line: Line, pattern: re.Pattern[str]) -> Line:
    if not isinstance(line, RequestLine | ResponseLine):
        return line
    topics = [replace(topic, topic=_mask_value(topic.topic, pattern)) for topic in line.topics]
    return replace(
        line, body=_mask_value(line.body, pattern), client_id=_mask_value(line.client_id, pattern), topics=topics
    )


def _mask_value(value: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return pattern.sub("*", value)
    if isinstance(value, dict):
        return {name: _mask_value(inner, pattern) for name, inner in value.items()}
    return [_mask_value(element, pattern) for element in value] if isinstance(value, list) else value


def _add_finding(traffic: RecordedTraffic, finding: FindingEntry | FindingLine, api: str, direction: str) -> None:
    if not finding.code.startswith(_VISIBILITY):
        traffic.findings.setdefault((finding.code, api, direction), f"{finding.name}: {finding.message}")
