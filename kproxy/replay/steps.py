"""Trace lines as steps of a replay: captured requests and responses, in the order in which they were captured."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from dissectors import embedded
from dissectors.messages import secret_fields, summary
from dissectors.messages.message import Message, read_request, read_response
from dissectors.messages.readiness import are_all_not_ready
from dissectors.schemas.codes import ApiKey
from kproxy.trace.lines import CloseLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.trace.pairing import RequestPairing
from kproxy.trace.timestamps import nanoseconds

#: Why a request of a trace with less detail than ``raw`` is left out.
NO_BYTES: Final = "its bytes are not in the trace"
#: The requests of a login, whose secrets are in no trace.
_LOGIN: Final = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
#: Requests that brokers send each other (authorized as ClusterAction). The broker under test sends its own.
_INTER_BROKER_APIS: Final = frozenset(
    {
        "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "WriteTxnMarkers", "Vote",
        "BeginQuorumEpoch", "EndQuorumEpoch", "AlterPartition", "Envelope", "FetchSnapshot", "BrokerRegistration",
        "BrokerHeartbeat", "AllocateProducerIds", "ControllerRegistration", "AssignReplicasToDirs",
        "InitializeShareGroupState", "ReadShareGroupState", "WriteShareGroupState", "DeleteShareGroupState",
        "ReadShareGroupStateSummary",
    }
)  # fmt: skip


@dataclass(slots=True, eq=False)
class CapturedExchange:
    """A captured request, and its response if there is one.

    `number` counts the requests on the connection from 1. `left_out` is the reason why the request is not sent.
    """

    line: RequestLine
    number: int
    request: Message | None
    left_out: str = ""
    response: Message | None = None
    latency_us: int = 0

    @property
    def connection_id(self) -> str:
        """The id of the connection in the trace."""
        return self.line.connection_id

    @property
    def name(self) -> str:
        """The API and version of the request, e.g. ``Metadata v9``."""
        return f"{self.line.api} v{self.line.api_version}" if self.line.api else "a SASL token"


class Action(Enum):
    """What happened in the capture: a request was sent, a response arrived, or a connection ended."""

    SEND = auto()
    RECEIVE = auto()
    CLOSE = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """One event in a capture, at a time in ns. `exchange` is None if a connection ended."""

    at: int
    action: Action
    connection_id: str
    exchange: CapturedExchange | None = None


def build_steps(lines: Iterable[Line], is_wanted: Callable[[Line], bool] | None = None) -> list[Step]:
    """Return the steps of trace lines with detail ``raw``, ordered by time.

    Args:
        lines: The lines of any number of traces or captures.
        is_wanted: Returns whether to send the request of a line; None sends all.
    """
    steps = sorted(_steps(lines, is_wanted), key=lambda step: step.at)
    return [step for step in steps if step.exchange is None or not step.exchange.left_out or step.action is Action.SEND]


def _steps(lines: Iterable[Line], is_wanted: Callable[[Line], bool] | None) -> Iterator[Step]:
    request_counts: dict[str, int] = {}
    pairing: RequestPairing[CapturedExchange] = RequestPairing()
    for line in lines:
        connection_id = line.connection_id
        if isinstance(line, RequestLine):
            number = request_counts[connection_id] = request_counts.get(connection_id, 0) + 1
            exchange = _captured_exchange(line, number, is_wanted)
            pairing.add(line, exchange)
            yield Step(nanoseconds(line.ts), Action.SEND, connection_id, exchange)
        elif isinstance(line, ResponseLine):
            exchange_of_response = pairing.match(line)
            if exchange_of_response is None or exchange_of_response.request is None:
                continue
            if line.frame is not None:
                frame = base64.b64decode(line.frame)
                exchange_of_response.response = read_response(
                    frame, exchange_of_response.request.api_key, exchange_of_response.request.version
                )
                if _was_not_ready(exchange_of_response.response):
                    exchange_of_response.left_out = exchange_of_response.left_out or "the captured broker was not ready"
            exchange_of_response.latency_us = line.latency_us or 0
            yield Step(nanoseconds(line.ts), Action.RECEIVE, connection_id, exchange_of_response)
        elif isinstance(line, OpenLine | CloseLine):
            pairing.end(line)
            if isinstance(line, CloseLine):
                yield Step(nanoseconds(line.ts), Action.CLOSE, connection_id)


def _captured_exchange(line: RequestLine, number: int, is_wanted: Callable[[Line], bool] | None) -> CapturedExchange:
    request = None if line.frame is None else read_request(base64.b64decode(line.frame))
    if line.api_key in _LOGIN or line.api is None:
        left_out = "the login is not in the capture"
    elif request is None:
        left_out = line.not_decoded or NO_BYTES
    elif secret_fields.holds_secret(request) or embedded.holds_secret_topic(request):
        left_out = "its secrets are redacted"
    elif _is_between_brokers(request):
        left_out = "brokers send it to each other"
    elif is_wanted is not None and not is_wanted(line):
        left_out = "--filter does not match"
    else:
        left_out = ""
    return CapturedExchange(line, number, request, left_out)


def _is_between_brokers(request: Message) -> bool:
    if request.api == "AddPartitionsToTxn":
        return request.version >= 4  # KIP-890: clients send up to version 3
    if request.api == "Fetch":
        return request.body.get("replica_id", -1) >= 0 or "replica_state" in request.body  # KIP-903
    return request.api in _INTER_BROKER_APIS


def _was_not_ready(response: Message) -> bool:
    return are_all_not_ready(error.code for error in summary.errors(response)) and not _has_stored(response)


def _has_stored(response: Message) -> bool:
    """Whether this is a Produce response in which at least one partition has stored its records."""
    return response.api == "Produce" and any(
        not partition["error_code"]
        for topic in response.body.get("responses", ())
        for partition in topic["partition_responses"]
    )
