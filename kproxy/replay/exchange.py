"""One exchange of a replay: the request to send, and how the live response differs from the captured one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from typing import Any, Final

from dissectors import embedded
from dissectors.messages import summary
from dissectors.messages.message import Message, read_response
from dissectors.messages.readiness import NOT_READY
from dissectors.schemas.codes import Error
from kproxy.client.exchange import correlation_id_mismatch
from kproxy.comparison.bodies import FieldDifference, compare_bodies
from kproxy.comparison.kinds import MAY_DIFFER, ValueKind
from kproxy.proxy.address import TcpAddress
from kproxy.replay import produce_again
from kproxy.replay.live_values import LiveValues
from kproxy.replay.routes import ClusterRoutes
from kproxy.replay.steps import CapturedExchange

#: Errors after which the request is sent again, unless the captured response has them.
_RETRIABLE: Final = NOT_READY | {Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID}
#: Requests that would be out of sequence in their session if they were sent again.
_NOT_REPEATABLE: Final = frozenset({"Fetch", "ShareFetch", "ShareAcknowledge"})


class ReplayOutcome(StrEnum):
    """The outcome of replaying a captured request. Only `DIFFERENT` is a failure."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class ReplayedExchange:
    """The outcome of replaying one captured request. `sentence` explains it unless `differences` do."""

    captured: CapturedExchange
    outcome: ReplayOutcome
    sentence: str = ""
    differences: list[FieldDifference] = field(default_factory=list)
    live: Message | None = None


class Replayer:
    """Builds the requests to send, and judges the responses. It does no I/O.

    Args:
        map_offsets: Whether to replace offsets like ids, and not to compare them.
        shift_ms: How many ms later the timestamps of produced records are than in the capture.
        routes: The routes to the brokers of the live cluster, if it has several.
    """

    def __init__(self, *, map_offsets: bool = False, shift_ms: int = 0, routes: ClusterRoutes | None = None) -> None:
        self._routes = routes
        self._values = LiveValues(offsets=map_offsets, shift_ms=shift_ms)
        self._earlier_bodies: dict[CapturedExchange, dict[str, Any]] = {}
        self._may_differ = MAY_DIFFER | {ValueKind.OFFSET} if map_offsets else MAY_DIFFER

    def frame(self, exchange: CapturedExchange) -> bytes:
        """Return the request frame for an exchange that is not left out, with its length prefix."""
        request, captured = exchange.request, exchange.response
        assert request is not None
        if request.api != "Produce" or captured is None or not (request.well_formed and captured.well_formed):
            return self._values.with_live_values(request, None if self._routes is None else self._routes.body(request))
        if NOT_READY.isdisjoint(error.code for error in summary.errors(captured)):
            return self._values.with_live_values(request)
        # Send only the partitions that were ready: the client produced to the others again.
        self._earlier_bodies[exchange] = self._with_live_ids(captured.body, "responses")
        return self._values.with_live_values(
            request, produce_again.limit_to(request.body, produce_again.stored_partitions(captured.body))
        )

    def address(self, exchange: CapturedExchange) -> TcpAddress | None:
        """Return the broker to send the request to, None for the one that the user gave."""
        return None if self._routes is None else self._routes.address(exchange)

    def frame_to_resend(self, exchange: CapturedExchange, frame: bytes) -> bytes | None:
        """Return the frame to send again if the broker was not ready, unless the captured broker was not ready either.

        For a Produce request, only the partitions with an error are sent again.
        """
        request, captured = exchange.request, exchange.response
        if request is None or captured is None or not request.well_formed or captured.api in _NOT_REPEATABLE:
            return None
        live = self._decode_response(exchange, frame)
        new_errors = {error.code for error in summary.errors(live)} - {error.code for error in summary.errors(captured)}
        if not live.well_formed or not new_errors or not new_errors <= _RETRIABLE:
            return None
        if live.api != "Produce":
            return self._values.with_live_values(request)
        self._earlier_bodies[exchange] = {name: value for name, value in live.body.items() if name != "node_endpoints"}
        expected = produce_again.failed_partitions(self._with_live_ids(captured.body, "responses"))
        partitions = produce_again.failed_partitions(live.body) - expected
        return self._values.with_live_values(
            request, produce_again.limit_to(self._with_live_ids(request.body, "topic_data"), partitions)
        )

    def _with_live_ids(self, body: dict[str, Any], array: str) -> dict[str, Any]:
        return produce_again.with_topic_ids(body, array, partial(self._values.counterpart, ValueKind.TOPIC_ID))

    def handle_response(self, exchange: CapturedExchange, frame: bytes) -> ReplayedExchange:
        """Learn from the live response, and compare it with the captured one."""
        request, captured, live = exchange.request, exchange.response, self._decode_response(exchange, frame)
        assert request is not None
        if self._routes is not None:
            self._routes.learn(request, live)
        if (mismatch := correlation_id_mismatch(request.frame, frame)) is not None:
            return ReplayedExchange(exchange, ReplayOutcome.DIFFERENT, mismatch, live=live)
        if captured is None:
            return ReplayedExchange(exchange, ReplayOutcome.NOT_COMPARED, "the capture has no response", live=live)
        if not captured.well_formed:
            return ReplayedExchange(
                exchange, ReplayOutcome.NOT_COMPARED, "the captured response does not decode", live=live
            )
        if not live.well_formed:
            problem = live.error.message if live.error else live.opaque or f"{live.trailing} bytes too many"
            return ReplayedExchange(
                exchange, ReplayOutcome.DIFFERENT, f"the response does not decode: {problem}", live=live
            )
        topic_names = self._values.captured_topics.get, self._values.live_topics.get
        comparison = compare_bodies(
            f"{captured.api}Response",
            captured_body := embedded.presentable_body(captured, topic_names[0]),
            _in_captured_order(
                captured_body,
                embedded.presentable_body(live, topic_names[1]),
                partial(self._values.counterpart, ValueKind.MEMBER_ID),
            ),
            may_differ=self._may_differ,
            topic_names=topic_names,
        )
        self._values.learn(request, captured, comparison.pairs)
        outcome = ReplayOutcome.DIFFERENT if comparison.differences else ReplayOutcome.EQUAL
        return ReplayedExchange(exchange, outcome, "", comparison.differences, live)

    def _decode_response(self, exchange: CapturedExchange, frame: bytes) -> Message:
        assert exchange.request is not None
        live = read_response(frame, exchange.request.api_key, exchange.request.version)
        if live.well_formed and (earlier_body := self._earlier_bodies.get(exchange)) is not None:
            live.body = produce_again.merge_responses(earlier_body, live.body)
        return live


def _in_captured_order(captured: Any, live: Any, live_member: Callable[[str], str]) -> Any:
    """Return the live value with group members in the captured order, because brokers list them in any order."""
    if isinstance(captured, dict) and isinstance(live, dict):
        return {name: _in_captured_order(captured.get(name), value, live_member) for name, value in live.items()}
    if not isinstance(captured, list) or not isinstance(live, list):
        return live
    if all(isinstance(row, dict) and "member_id" in row for row in (*captured, *live)):
        order = {live_member(member["member_id"]): number for number, member in enumerate(captured)}
        live = sorted(live, key=lambda member: order.get(member["member_id"], len(order)))
    if len(captured) != len(live):
        return live
    return [
        _in_captured_order(captured_element, live_element, live_member)
        for captured_element, live_element in zip(captured, live, strict=True)
    ]
