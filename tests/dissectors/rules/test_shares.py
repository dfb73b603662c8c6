"""Rules about acquired records and share sessions: who acquired which records, until when, and who has them now."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from dissectors.trackers.share_acquisitions import AcknowledgeType, ShareAcquisitions, acknowledgements
from tests.kproxy.stories import findings

TOPIC = "iQ2TY3LnUY29Lbs4b27PzA"
ACCEPT, RELEASE, RENEW = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.RENEW


class ShareMember:
    """Tells what a member of group g does on its own connection."""

    def __init__(self, number: int) -> None:
        self.number, self.epoch = number, -1

    def fetch(self, *acquired: tuple[int, int, int], wait_s: int = 0) -> str:
        """Return a ShareFetch that acquires ranges (first offset, last offset, delivery count) after `wait` seconds."""
        ranges = [
            {"first_offset": first_offset, "last_offset": last_offset, "delivery_count": delivery_count}
            for first_offset, last_offset, delivery_count in acquired
        ]
        topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acquired_records": ranges}]}]
        body = {"acquisition_lock_timeout_ms": 3000, "responses": topics if ranges else []}
        return self._exchange("ShareFetch", {"topics": []}, body, wait_s)

    def acknowledge(self, first: int, last: int, *types: int, error: int = 0) -> str:
        """Return a ShareAcknowledge of a range."""
        batch = {"first_offset": first, "last_offset": last, "acknowledge_types": types}
        partition = {"partition_index": 0, "acknowledgement_batches": [batch]}
        request_fields = {"is_renew_ack": RENEW in types, "topics": [{"topic_id": TOPIC, "partitions": [partition]}]}
        topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "error_code": error}]}]
        return self._exchange(
            "ShareAcknowledge", request_fields, {"acquisition_lock_timeout_ms": 3000, "responses": topics}, 0
        )

    def refused_fetch(self, epoch: int, error: int) -> str:
        """Return a ShareFetch whose epoch is refused."""
        self.epoch = epoch - 1
        return self._exchange("ShareFetch", {"topics": []}, {"error_code": error}, 0)

    def _exchange(self, api: str, request_fields: dict[str, object], body: dict[str, object], wait_s: int) -> str:
        self.epoch += 1
        session = {"group_id": "g", "member_id": f"m{self.number}", "share_session_epoch": self.epoch}
        request = f"{self.number}> {api} v2 {json.dumps(session | request_fields)}"
        return f"{request}\n+{wait_s}s\n{self.number}< {json.dumps(body)}\n" if wait_s else (
            f"{request}\n{self.number}< {json.dumps(body)}\n"
        )  # fmt: skip


def rule_messages(code: str, *parts: str, rule: str = "") -> list[str]:
    """Return the messages that a rule reports about a story."""
    return [finding.message for finding in findings("\n".join([*([rule] if rule else []), *parts]), code)]


def test_late_acknowledgement_names_the_member_that_has_the_records() -> None:
    late_member, other_member = ShareMember(1), ShareMember(2)
    [message] = rule_messages(
        "Q001",
        late_member.fetch((5, 9, 1)),
        "+4s",
        other_member.fetch((5, 9, 2)),
        "+1s",
        late_member.acknowledge(5, 9, ACCEPT, error=121),
    )
    assert "offsets 5 to 9 of" in message
    assert "its lock ran out 2 s earlier, 3 s after it got them; client 'app' at 10.0.0.102" in message
    assert message.endswith("received them 1 s earlier (delivery 2)")


def test_late_acknowledgement_reports_an_earlier_delivery_to_another_member() -> None:
    late_member, other_member = ShareMember(1), ShareMember(2)
    parts = (
        late_member.fetch((5, 5, 1)),
        "+4s",
        other_member.fetch((5, 5, 2)),
        other_member.acknowledge(5, 5, ACCEPT),
        "+1s",
    )
    [message] = rule_messages("Q001", *parts, late_member.acknowledge(5, 5, ACCEPT, error=121))
    assert "refused for offset 5 of" in message
    assert message.endswith("has received them since (delivery 2)")


def test_late_acknowledgement_reports_redelivery_to_the_same_member() -> None:
    member = ShareMember(1)
    parts = member.fetch((5, 9, 1)), "+3s", member.fetch((5, 9, 2)), "+4s", member.acknowledge(5, 9, ACCEPT, error=121)
    [message] = rule_messages("Q001", *parts)
    assert "its lock ran out 4 s earlier" in message
    assert message.endswith("they were delivered to it again 4 s earlier (delivery 2)")


def test_late_acknowledgement_reports_that_nobody_got_the_records_again() -> None:
    member = ShareMember(1)
    [message] = rule_messages("Q001", member.fetch((5, 9, 1)), "+5s", member.acknowledge(5, 9, ACCEPT, error=121))
    assert message.endswith("its lock ran out 2 s earlier, 3 s after it got them; no member has received them since")


@pytest.mark.parametrize(("acknowledge_type", "verb"), [(ACCEPT, "accepted"), (RELEASE, "released")])
def test_second_acknowledgement_is_explained_by_the_first(acknowledge_type: int, verb: str) -> None:
    member = ShareMember(1)
    parts = (
        member.fetch((5, 9, 1)),
        member.acknowledge(5, 9, acknowledge_type),
        "+2s",
        member.acknowledge(5, 9, ACCEPT, error=121),
    )
    assert rule_messages("Q001", *parts)[0].endswith(f"it had {verb} them 2 s before")


def test_acknowledgement_of_another_members_records_is_explained() -> None:
    member, owner = ShareMember(1), ShareMember(2)
    [message] = rule_messages(
        "Q001", owner.fetch((5, 9, 1)), "+1s", member.fetch(), member.acknowledge(5, 9, ACCEPT, error=121)
    )
    assert message.endswith("has them since 1 s, not this member")


def test_acknowledgement_of_unknown_records_has_the_general_finding() -> None:
    parts = ShareMember(1).fetch(), ShareMember(1).acknowledge(5, 9, ACCEPT, error=121)
    assert rule_messages("Q001", *parts) == []
    assert rule_messages("E001", *parts)


def test_late_acknowledgement_has_no_general_finding() -> None:
    member = ShareMember(1)
    assert rule_messages("E001", member.fetch((5, 9, 1)), "+5s", member.acknowledge(5, 9, ACCEPT, error=121)) == []


def test_expired_lock_is_reported_at_the_next_delivery() -> None:
    member, other_member = ShareMember(1), ShareMember(2)
    [message] = rule_messages(
        "Q002", member.fetch((5, 9, 1)), member.acknowledge(5, 6, ACCEPT), "+4s", other_member.fetch((7, 9, 2))
    )
    assert "did not acknowledge offsets 7 to 9 of" in message
    assert "within their lock of 3 s" in message


def test_renewed_lock_has_not_expired() -> None:
    member, other_member = ShareMember(1), ShareMember(2)
    parts = member.fetch((5, 9, 1)), "+2s", member.acknowledge(5, 9, RENEW), "+2s", other_member.fetch((5, 9, 2))
    assert rule_messages("Q002", *parts) == []  # the broker has released them for another reason


def test_records_of_a_closed_session_are_released() -> None:
    member, other_member = ShareMember(1), ShareMember(2)
    first_fetch = member.fetch((5, 9, 1))
    member.epoch = -2
    assert (
        rule_messages("Q002", first_fetch, member.acknowledge(0, 0, ACCEPT), "+4s", other_member.fetch((5, 9, 2))) == []
    )


def test_accepted_records_are_not_reported_as_archived() -> None:
    member = ShareMember(1)
    parts = (
        member.fetch((5, 9, 5)),
        member.acknowledge(5, 6, ACCEPT),
        member.acknowledge(7, 9, RELEASE),
        member.fetch(wait_s=1),
    )
    [message] = rule_messages("Q003", *parts)
    assert message.startswith("offsets 7 to 9 of")
    assert "released them at delivery 5" in message


def test_fetch_of_another_member_does_not_prove_archiving() -> None:
    member, other_member = ShareMember(1), ShareMember(2)
    assert (
        rule_messages("Q003", member.fetch((5, 9, 5)), member.acknowledge(5, 9, RELEASE), other_member.fetch(wait_s=1))
        == []
    )


def test_response_to_an_earlier_request_does_not_prove_archiving() -> None:
    member, other_member = ShareMember(1), ShareMember(2)
    earlier_request, earlier_response = other_member.fetch(wait_s=1).split("+1s\n")
    parts = (
        other_member.fetch((1, 1, 1)),
        earlier_request,
        member.fetch((5, 9, 5)),
        member.acknowledge(5, 9, RELEASE),
        earlier_response,
    )
    assert rule_messages("Q003", *parts) == []


def test_delivery_of_lower_offsets_does_not_prove_archiving() -> None:
    member = ShareMember(1)
    assert (
        rule_messages("Q003", member.fetch((5, 9, 5)), member.acknowledge(5, 9, RELEASE), member.fetch((1, 2, 3))) == []
    )


def test_delivery_limit_is_configurable() -> None:
    member = ShareMember(1)
    parts = member.fetch((5, 9, 5)), member.acknowledge(5, 9, RELEASE), member.fetch(wait_s=1)
    assert rule_messages("Q003", *parts, rule="rule Q003:deliveries=6") == []


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
def test_refused_session_epoch_is_explained(epoch: int, error: int, reason: str) -> None:
    member = ShareMember(1)
    [message] = rule_messages("Q004", member.fetch(), "+1s", member.refused_fetch(epoch, error))
    assert message.endswith(reason)


def test_session_continued_on_a_new_connection_is_reported_as_information() -> None:
    member, reconnected = ShareMember(1), ShareMember(1)
    reconnected.number = 2
    continuation = reconnected.refused_fetch(1, 122).replace('"m2"', '"m1"')
    [finding] = findings(member.fetch() + "1 close\n+1s\n" + continuation, "Q004")
    assert finding.severity == "info"
    assert "the session ended with that connection" in finding.message


def test_epoch_of_a_closed_session_is_explained() -> None:
    member = ShareMember(1)
    first_fetch = member.fetch()
    member.epoch = -2
    closing_request = member.acknowledge(0, 0, ACCEPT)
    assert rule_messages("Q004", first_fetch, closing_request, "+1s", member.refused_fetch(1, 122))[0].endswith(
        "had closed its session 1 s before"
    )


def acknowledged_ranges(types: Sequence[int]) -> list[tuple[int, int, int]]:
    batch = {"first_offset": 0, "last_offset": len(types) - 1, "acknowledge_types": types}
    request_body = {
        "topics": [{"topic_id": "t", "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}]}]
    }
    return [acknowledgement[1:] for acknowledgement in acknowledgements(request_body)]


def test_acknowledgements_are_grouped_into_ranges_of_one_type() -> None:
    assert acknowledged_ranges([1, 1, 2, 2, 2, 1]) == [(0, 1, 1), (2, 4, 2), (5, 5, 1)]


def test_too_many_ranges_become_one_range_of_unknown_type() -> None:
    assert acknowledged_ranges([1, 2] * 40) == [(0, 1 << 63, -1)]


def test_number_of_tracked_partitions_and_sessions_is_limited() -> None:
    tracker = ShareAcquisitions()
    assert tracker.partitions.max_size <= 10_000
    assert tracker.sessions.max_size <= 10_000


def test_late_acknowledgement_in_a_fetch_is_reported() -> None:
    session = {"group_id": "g", "member_id": "m1", "share_session_epoch": 1}
    batch = {"first_offset": 5, "last_offset": 9, "acknowledge_types": [ACCEPT]}
    topics = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledgement_batches": [batch]}]}]
    partitions = [{"topic_id": TOPIC, "partitions": [{"partition_index": 0, "acknowledge_error_code": 121}]}]
    request, response = json.dumps(session | {"topics": topics}), json.dumps({"responses": partitions})
    parts = ShareMember(1).fetch((5, 9, 1)), "+5s", f"1> ShareFetch v2 {request}", f"1< {response}"
    [finding] = findings("\n".join(parts), "Q001")
    assert finding.message.startswith("ShareFetch of client 'app'")
    assert finding.path == "responses[0].partitions[0].acknowledge_error_code"
