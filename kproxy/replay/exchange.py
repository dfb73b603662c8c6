"""One exchange of a replay: the request to send, and how the live response differs from the captured one."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dissectors import embedded
from dissectors.messages import summary
from dissectors.messages.message import Message, read_response
from dissectors.schemas.codes import Error
from kproxy.client.exchange import wrong_correlation_id
from kproxy.comparison.bodies import FieldDifference, compare_bodies
from kproxy.comparison.kinds import MAY_DIFFER, ValueKind
from kproxy.replay.captured import CapturedExchange
from kproxy.replay.live_values import LiveValues

#: Errors of a broker that is not ready: it has done nothing, and clients send the request again.
_NOT_READY: Final = frozenset(
    {
        Error.LEADER_NOT_AVAILABLE, Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR, Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.UNKNOWN_TOPIC_ID,
        Error.CONCURRENT_TRANSACTIONS,
    }
)  # fmt: skip
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
        live = summary.errors(self._read(exchange, frame))
        new = {each.code for each in live} - {each.code for each in summary.errors(exchange.response)}
        return bool(new) and new <= _NOT_READY and not _has_stored(exchange.response, len(live))

    def received(self, exchange: CapturedExchange, frame: bytes) -> ReplayedExchange:
        """Learn from the live response, and compare it with the captured one."""
        captured, live = exchange.response, self._read(exchange, frame)
        if (wrong := wrong_correlation_id(exchange.request.frame, frame)) is not None:
            return ReplayedExchange(exchange, Outcome.DIFFERENT, wrong, live=live)
        if captured is None:
            return ReplayedExchange(exchange, Outcome.NOT_COMPARED, "the capture has no response", live=live)
        if not live.well_formed:
            problem = live.error.message if live.error else live.opaque or f"{live.trailing} bytes too many"
            if captured.well_formed:
                return ReplayedExchange(exchange, Outcome.DIFFERENT, f"the response does not decode: {problem}", live=live)
        if not captured.well_formed:
            return ReplayedExchange(exchange, Outcome.NOT_COMPARED, "the captured response does not decode", live=live)
        names = self._values.captured_topics.get, self._values.live_topics.get
        found = compare_bodies(
            f"{captured.api}Response",
            embedded.presentable(captured, names[0]),
            embedded.presentable(live, names[1]),
            may_differ=self._may_differ,
            topic_names=names,
        )
        self._values.learn(exchange.request, captured, found.pairs)
        outcome = Outcome.DIFFERENT if found.differences else Outcome.EQUAL
        return ReplayedExchange(exchange, outcome, "", found.differences, live)

    def _read(self, exchange: CapturedExchange, frame: bytes) -> Message:
        assert exchange.request is not None
        return read_response(frame, exchange.request.api_key, exchange.request.version)


def _has_stored(response: Message, errors: int) -> bool:
    """Whether a Produce with this number of errors has stored records nevertheless, and must not be repeated."""
    if response.api != "Produce":
        return False
    return errors < sum(len(each["partition_responses"]) for each in response.body.get("responses", ()))
