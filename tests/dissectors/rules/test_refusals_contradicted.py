"""Errors that the request, its version or the response explains: most contradict it, so the broker is to blame."""

from __future__ import annotations

import json

from tests.dissectors.rules.refusal_stories import error_findings


def test_error_is_blamed_on_the_broker_only_if_the_request_contradicts_it() -> None:
    request = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 45000, "member_id": "%s"}\n'
    loop = 9 * (request.replace("%s", "m-1") + '< {"error_code": 79, "member_id": "m-1"}\n+500ms\n')
    [finding] = error_findings(loop)
    assert (finding.code, finding.blame) == ("E002", "broker")
    assert "requires a member id although the request has one" in finding.message
    assert not error_findings(request.replace("%s", "") + '< {"error_code": 79, "member_id": "m-1"}\n')
    [finding] = error_findings(request.replace("%s", "") + '< {"error_code": 24}\n')
    assert (finding.code, finding.blame) == ("E001", "broker")
    [finding] = error_findings(request.replace('"g"', '""').replace("%s", "") + '< {"error_code": 24}\n')
    assert (finding.code, finding.blame) == ("E003", "client")


def test_error_contradicted_by_its_own_response_is_blamed_on_the_broker() -> None:
    def metadata_with_leader(leader: int) -> str:
        row = {"error_code": 5, "partition_index": 0, "leader_id": leader}
        topics = [{"name": "orders", "partitions": [row]}]
        return f'> Metadata v8 {{"topics": [{{"name": "orders"}}]}}\n< {json.dumps({"topics": topics})}\n'

    [finding] = error_findings(metadata_with_leader(3))
    assert (finding.code, finding.blame, finding.severity) == ("E001", "broker", "warning")
    assert "names a leader of the partition nevertheless" in finding.message
    assert not error_findings(metadata_with_leader(-1))


def test_refusal_of_a_supported_codec_is_blamed_on_the_broker() -> None:
    fetch = '> Fetch v{} {{"topics": [{{"topic": "t", "partitions": [{{}}]}}]}}\n'
    response = '< {"responses": [{"topic": "t", "partitions": [{"error_code": 76}]}]}\n'
    [finding] = error_findings(fetch.format(11) + response)
    assert (finding.code, finding.blame) == ("E001", "broker")
    assert not error_findings(fetch.format(4) + response), "R013 reports that this codec needs a newer version"


def test_fetch_that_times_out_is_blamed_on_the_broker() -> None:
    fetch = '> Fetch v11 {"topics": [{"topic": "t", "partitions": [{}]}]}\n'
    response = '< {"responses": [{"topic": "t", "partitions": [{"error_code": 7}]}]}\n+500ms\n'
    reported = error_findings(30 * (fetch + response))
    assert {(finding.code, finding.blame) for finding in reported} == {("E002", "broker")}
    assert "a fetch has no timeout that can fail" in reported[0].message


def test_member_of_a_group_that_is_gone_must_rejoin_or_fail() -> None:
    heartbeat = (
        '> ConsumerGroupHeartbeat v0 {"group_id": "g", "member_id": "m", "member_epoch": %d}\n< {"error_code": 69}\n'
    )
    [finding] = error_findings(heartbeat % 7)
    assert (finding.blame, finding.severity) == ("client", "error")
    assert "the coordinator no longer has the group of this member" in finding.message
    assert finding.hint is not None
    assert "it must rejoin with member_epoch 0, or fail" in finding.hint
    [finding] = error_findings(heartbeat % 0)
    assert "the group does not exist, or is of another type" in finding.message
