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
from dissectors.schemas.codes import Error
from kproxy.client.exchange import wrong_correlation_id
from kproxy.comparison.bodies import FieldDifference, compare_bodies
from kproxy.comparison.kinds import MAY_DIFFER, ValueKind
from kproxy.replay.captured import NOT_READY, CapturedExchange, has_stored
from kproxy.replay.live_values import LiveValues

#: Errors after which the request is sent again, unless the captured response has them.
_RETRIED: Final = NOT_READY | {Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID}
#: Requests that would be out of turn in their session the second time.
_ONCE: Final = frozenset({"Fetch", "ShareFetch", "ShareAcknowledge"})


class Outcome(StrEnum):
    """What became of a captured request. Only `DIFFERENT` is a failure."""

    EQUAL = "equal"
    DIFFERENT = "different"
    NOT_COMPARED = "not compared"
    LEFT_OUT = "left out"


@dataclass(frozen=True, slots=True)
class ReplayedExchange:
    """The outcome of one captured request. `sentence` explains it unless `differences` do."""

    captured: CapturedExchange
    outcome: Outcome
    sentence: str = ""
    differences: list[FieldDifference] = field(default_factory=list)
    live: Message | None = None


class Replayer:
    """Makes the requests to send and judges the responses. It does no I/O.

    Args:
        map_offsets: Whether offsets are replaced like ids, and not compared.
    """

    def __init__(self, *, map_offsets: bool = False) -> None:
        self._values = LiveValues(offsets=map_offsets)
        self._may_differ = MAY_DIFFER | {ValueKind.OFFSET} if map_offsets else MAY_DIFFER

    def frame(self, exchange: CapturedExchange) -> bytes:
        """The frame to send for an exchange that is not left out, with its length prefix."""
        assert exchange.request is not None
        return self._values.applied(exchange.request)

    def is_not_ready(self, exchange: CapturedExchange, frame: bytes) -> bool:
        """Whether this response means that the broker will answer as captured if the request is sent again soon."""
        if exchange.response is None or exchange.response.api in _ONCE:
            return False
        live = self._read(exchange, frame)
        new = {each.code for each in summary.errors(live)} - {each.code for each in summary.errors(exchange.response)}
        return bool(new) and new <= _RETRIED and not has_stored(live)

    def received(self, exchange: CapturedExchange, frame: bytes) -> ReplayedExchange:
        """Learn from the live response, and compare it with the captured one."""
        request, captured, live = exchange.request, exchange.response, self._read(exchange, frame)
        assert request is not None
        if (wrong := wrong_correlation_id(request.frame, frame)) is not None:
            return ReplayedExchange(exchange, Outcome.DIFFERENT, wrong, live=live)
        if captured is None:
            return ReplayedExchange(exchange, Outcome.NOT_COMPARED, "the capture has no response", live=live)
        if not live.well_formed:
            problem = live.error.message if live.error else live.opaque or f"{live.trailing} bytes too many"
            if captured.well_formed:
                return ReplayedExchange(
                    exchange, Outcome.DIFFERENT, f"the response does not decode: {problem}", live=live
                )
        if not captured.well_formed:
            return ReplayedExchange(exchange, Outcome.NOT_COMPARED, "the captured response does not decode", live=live)
        names = self._values.captured_topics.get, self._values.live_topics.get
        found = compare_bodies(
            f"{captured.api}Response",
            body := embedded.presentable(captured, names[0]),
            _in_order(
                body, embedded.presentable(live, names[1]), partial(self._values.counterpart, ValueKind.MEMBER_ID)
            ),
            may_differ=self._may_differ,
            topic_names=names,
        )
        self._values.learn(request, captured, found.pairs)
        outcome = Outcome.DIFFERENT if found.differences else Outcome.EQUAL
        return ReplayedExchange(exchange, outcome, "", found.differences, live)

    def _read(self, exchange: CapturedExchange, frame: bytes) -> Message:
        assert exchange.request is not None
        return read_response(frame, exchange.request.api_key, exchange.request.version)


def _in_order(captured: Any, live: Any, live_member: Callable[[str], str]) -> Any:
    """The live value with the members of groups in the captured order, because brokers list them in any."""
    if isinstance(captured, dict) and isinstance(live, dict):
        return {name: _in_order(captured.get(name), value, live_member) for name, value in live.items()}
    if not isinstance(captured, list) or not isinstance(live, list):
        return live
    if all(isinstance(each, dict) and "member_id" in each for each in (*captured, *live)):
        order = {live_member(each["member_id"]): number for number, each in enumerate(captured)}
        live = sorted(live, key=lambda each: order.get(each["member_id"], len(order)))
    if len(captured) != len(live):
        return live
    return [_in_order(one, other, live_member) for one, other in zip(captured, live, strict=True)]
