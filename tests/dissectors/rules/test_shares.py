"""What rules say of acquired records and share sessions: who had what, until when, and who has it now."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from dissectors.trackers.share_acquisitions import AcknowledgeType, ShareAcquisitions, acknowledgements
from tests.kproxy.stories import findings

TOPIC = "iQ2TY3LnUY29Lbs4b27PzA"
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


class Member:
    """Tells what a member of group g does on its own connection."""

    def __init__(self, number: int) -> None:
        self.number, self.epoch = number, -1

    def fetch(self, *acquired: tuple[int, int, int], wait: int = 0) -> str:
        """A ShareFetch that gets ranges: first and last offset, delivery count; `wait` seconds until its response."""
        ranges = [{"first_offset": a, "last_offset": b, "delivery_count": c} for a, b, c in acquired]
        rows = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acquired_records": ranges}]}]
        body = {"acquisition_lock_timeout_ms": 3000, "responses": rows if ranges else []}
        return self._exchange("ShareFetch", {"topics": []}, body, wait)

    def acknowledge(self, first: int, last: int, *types: int, error: int = 0) -> str:
        """A ShareAcknowledge of a range."""
        batch = {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        partition = {"partition_index": 0, "acknowledgement_batches": [batch]}
        asked = {"is_renew_ack": RENEW in types, "topics": [{"topic_id": TOPIC, "partitions": [partition]}]}
        rows = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "error_code": error}]}]
        return self._exchange("ShareAcknowledge", asked, {"acquisition_lock_timeout_ms": 3000, "responses": rows}, 0)

    def asks(self, epoch: int, error: int) -> str:
        """A ShareFetch with an epoch that is refused."""
        self.epoch = epoch - 1
        return self._exchange("ShareFetch", {"topics": []}, {"error_code": error}, 0)

    def _exchange(self, api: str, asked: dict[str, object], body: dict[str, object], wait: int) -> str:
        self.epoch += 1
        session = {"group_id": "g", "member_id": f"m{self.number}", "share_session_epoch": self.epoch}
        request = f"{self.number}> {api} v2 {json.dumps(session | asked)}"
        return f"{request}\n+{wait}s\n{self.number}< {json.dumps(body)}\n" if wait else (
            f"{request}\n{self.number}< {json.dumps(body)}\n"
        )  # fmt: skip


def said(code: str, *parts: str, rule: str = "") -> list[str]:
    """The messages of a rule about a story."""
    return [finding.message for finding in findings("\n".join([*([rule] if rule else []), *parts]), code)]


def test_the_records_of_a_late_acknowledgement_are_with_another_member() -> None:
    a, b = Member(1), Member(2)
    [message] = said(
        "Q001", a.fetch((5, 9, 1)), "+4s", b.fetch((5, 9, 2)), "+1s", a.acknowledge(5, 9, ACCEPT, error=121)
    )
    assert "offsets 5 to 9 of" in message
    assert "its lock ran out 2 s before, 3 s after it got them; client 'app' at 10.0.0.102" in message
    assert message.endswith("has got them 1 s before (delivery 2)")


def test_the_other_member_has_accepted_them_since() -> None:
    a, b = Member(1), Member(2)
    parts = a.fetch((5, 5, 1)), "+4s", b.fetch((5, 5, 2)), b.acknowledge(5, 5, ACCEPT), "+1s"
    [message] = said("Q001", *parts, a.acknowledge(5, 5, ACCEPT, error=121))
    assert "refused for offset 5 of" in message
    assert message.endswith("has got them since (delivery 2)")


def test_a_late_member_that_got_the_records_again_meanwhile() -> None:
    a = Member(1)
    parts = a.fetch((5, 9, 1)), "+3s", a.fetch((5, 9, 2)), "+4s", a.acknowledge(5, 9, ACCEPT, error=121)
    [message] = said("Q001", *parts)
    assert "its lock ran out 4 s before" in message
    assert message.endswith("they were delivered to it again 4 s before (delivery 2)")


def test_nobody_has_got_the_records_since() -> None:
    a = Member(1)
    [message] = said("Q001", a.fetch((5, 9, 1)), "+5s", a.acknowledge(5, 9, ACCEPT, error=121))
    assert message.endswith("its lock ran out 2 s before, 3 s after it got them; nobody has got them since")


@pytest.mark.parametrize(("kind", "word"), [(ACCEPT, "accepted"), (RELEASE, "released")])
def test_records_that_were_acknowledged_before(kind: int, word: str) -> None:
    a = Member(1)
    parts = a.fetch((5, 9, 1)), a.acknowledge(5, 9, kind), "+2s", a.acknowledge(5, 9, ACCEPT, error=121)
    assert said("Q001", *parts)[0].endswith(f"it had {word} them 2 s before")


def test_records_of_another_member() -> None:
    a, b = Member(1), Member(2)
    [message] = said("Q001", b.fetch((5, 9, 1)), "+1s", a.fetch(), a.acknowledge(5, 9, ACCEPT, error=121))
    assert message.endswith("has them since 1 s, not this member")


def test_unknown_records_are_left_to_the_general_rule() -> None:
    parts = Member(1).fetch(), Member(1).acknowledge(5, 9, ACCEPT, error=121)
    assert said("Q001", *parts) == []
    assert said("E001", *parts)


def test_the_general_rule_is_silent_about_a_late_acknowledgement() -> None:
    a = Member(1)
    assert said("E001", a.fetch((5, 9, 1)), "+5s", a.acknowledge(5, 9, ACCEPT, error=121)) == []


def test_an_expired_lock_is_reported_when_the_records_are_delivered_again() -> None:
    a, b = Member(1), Member(2)
    [message] = said("Q002", a.fetch((5, 9, 1)), a.acknowledge(5, 6, ACCEPT), "+4s", b.fetch((7, 9, 2)))
    assert "did not acknowledge offsets 7 to 9 of" in message
    assert "within their lock of 3 s" in message


def test_a_renewed_lock_has_not_expired() -> None:
    a, b = Member(1), Member(2)
    parts = a.fetch((5, 9, 1)), "+2s", a.acknowledge(5, 9, RENEW), "+2s", b.fetch((5, 9, 2))
    assert said("Q002", *parts) == []  # the broker has released them for another reason


def test_records_of_a_closed_session_are_released() -> None:
    a, b = Member(1), Member(2)
    first = a.fetch((5, 9, 1))
    a.epoch = -2
    assert said("Q002", first, a.acknowledge(0, 0, ACCEPT), "+4s", b.fetch((5, 9, 2))) == []


def test_a_part_that_is_accepted_is_not_archived() -> None:
    a = Member(1)
    parts = a.fetch((5, 9, 5)), a.acknowledge(5, 6, ACCEPT), a.acknowledge(7, 9, RELEASE), a.fetch(wait=1)
    [message] = said("Q003", *parts)
    assert message.startswith("offsets 7 to 9 of")
    assert "released them at delivery 5" in message


def test_what_another_member_may_not_have_asked_for_proves_nothing() -> None:
    a, b = Member(1), Member(2)
    assert said("Q003", a.fetch((5, 9, 5)), a.acknowledge(5, 9, RELEASE), b.fetch(wait=1)) == []


def test_a_response_to_an_earlier_request_proves_nothing() -> None:
    a, b = Member(1), Member(2)
    waiting, answer = b.fetch(wait=1).split("+1s\n")
    parts = b.fetch((1, 1, 1)), waiting, a.fetch((5, 9, 5)), a.acknowledge(5, 9, RELEASE), answer
    assert said("Q003", *parts) == []


def test_records_below_those_released_prove_nothing() -> None:
    a = Member(1)
    assert said("Q003", a.fetch((5, 9, 5)), a.acknowledge(5, 9, RELEASE), a.fetch((1, 2, 3))) == []


def test_a_limit_of_deliveries_that_users_set() -> None:
    a = Member(1)
    parts = a.fetch((5, 9, 5)), a.acknowledge(5, 9, RELEASE), a.fetch(wait=1)
    assert said("Q003", *parts, rule="rule Q003:deliveries=6") == []


@pytest.mark.parametrize(
    ("epoch", "error", "reason"),
    [
        (3, 123, "it sent epoch 3, but the next one is 1"),
        (
            1,
            122,
            "epoch 1 continues the session, whose epoch 0 the broker accepted 1 s before: it has lost the session",
        ),
    ],
)
def test_whose_fault_a_refused_session_is(epoch: int, error: int, reason: str) -> None:
    a = Member(1)
    [message] = said("Q004", a.fetch(), "+1s", a.asks(epoch, error))
    assert message.endswith(reason)


def test_a_session_that_continues_on_a_new_connection_is_information() -> None:
    a, again = Member(1), Member(1)
    again.number = 2
    second = again.asks(1, 122).replace('"m2"', '"m1"')
    [finding] = findings(a.fetch() + "1 close\n+1s\n" + second, "Q004")
    assert finding.severity == "info"
    assert "the session ended with that connection" in finding.message


def test_a_closed_session() -> None:
    a = Member(1)
    first = a.fetch()
    a.epoch = -2
    closing = a.acknowledge(0, 0, ACCEPT)
    assert said("Q004", first, closing, "+1s", a.asks(1, 122))[0].endswith("had closed its session 1 s before")


def ranges(types: Sequence[int]) -> list[tuple[int, int, int]]:
    batch = {"first_offset": 0, "last_offset": len(types) - 1, "acknowledge_types": types}
    asked = {"topics": [{"topic_id": "t", "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}]}]}
    return [acknowledgement[1:] for acknowledgement in acknowledgements(asked)]


def test_acknowledgements_are_ranges_of_one_type() -> None:
    assert ranges([1, 1, 2, 2, 2, 1]) == [(0, 1, 1), (2, 4, 2), (5, 5, 1)]


def test_too_many_acknowledgements_are_one_of_unknown_type() -> None:
    assert ranges([1, 2] * 40) == [(0, 1 << 63, -1)]


def test_the_memory_is_fixed() -> None:
    tracker = ShareAcquisitions()
    assert tracker.partitions.max_size <= 10_000
    assert tracker.sessions.max_size <= 10_000


def test_an_acknowledgement_in_a_fetch() -> None:
    asked = {"group_id": "g", "member_id": "m1", "share_session_epoch": 1}
    batch = {"first_offset": 5, "last_offset": 9, "acknowledge_types": [ACCEPT]}
    topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}]}]
    rows = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledge_error_code": 121}]}]
    request, response = json.dumps(asked | {"topics": topics}), json.dumps({"responses": rows})
    parts = Member(1).fetch((5, 9, 1)), "+5s", f"1> ShareFetch v2 {request}", f"1< {response}"
    [finding] = findings("\n".join(parts), "Q001")
    assert finding.message.startswith("ShareFetch of client 'app'")
    assert finding.path == "responses[0].partitions[0].acknowledge_error_code"
