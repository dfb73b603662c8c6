"""E005 and E006: clients that give up after an error."""

from __future__ import annotations

from tests.dissectors.rules.refusal_stories import (
    PRODUCE,
    abandoned_findings,
    commit_with_error,
    error_findings,
    produce_with_error,
)


def test_producer_that_gave_up_is_reported() -> None:
    failure = produce_with_error(45)
    [finding] = error_findings(failure + "+6s\n")
    assert (finding.code, finding.severity) == ("E005", "error")
    assert finding.message.startswith(
        "client 'app' has sent no Produce and no InitProducerId for 5 s since its last Produce was refused with "
        "OUT_OF_ORDER_SEQUENCE_NUMBER for orders[0]"
    )
    [after_close] = error_findings(failure + "close\n+6s\n")
    assert after_close.message.startswith(
        "client 'app' closed its connection after its last Produce was refused with OUT_OF"
    )
    assert not error_findings(failure + "open 3 client=10.0.0.101:50010\n+1s\n3 close\n" + produce_with_error(0)), (
        "another connection was closed"
    )
    assert not error_findings(failure + '> InitProducerId v3 {"transactional_id": null}\n+6s\n')
    new_connection = "open 2 client=10.0.0.101:50009\n"
    assert not error_findings(failure + new_connection + "2" + PRODUCE + "+6s\n"), (
        "the same client on another connection"
    )
    assert error_findings(failure + new_connection + "2" + PRODUCE.replace("> ", "> as other ") + "+6s\n"), (
        "another client"
    )


def test_client_is_reported_only_if_it_gives_up_after_a_transient_error() -> None:
    [finding] = abandoned_findings(commit_with_error(14) + "+9s\n")
    assert (finding.severity, finding.direction, finding.offset) == ("warning", "request", 0)
    assert finding.message.startswith(
        "OffsetCommit of client 'app' was refused with COORDINATOR_LOAD_IN_PROGRESS for group 'g', t[0], and the "
        "client has sent no OffsetCommit for 8 s since: the coordinator is still loading"
    )
    assert not abandoned_findings(commit_with_error(14) + "+2s\n" + commit_with_error(0) + "+9s\n")
    other_client = commit_with_error(0).replace("> ", "> as other ")
    assert abandoned_findings(commit_with_error(14) + other_client + "+9s\n"), (
        "a commit by another client is not a retry"
    )
    join = '> JoinGroup v5 {"group_id": "g", "session_timeout_ms": 10000, "rebalance_timeout_ms": 60000}\n'
    assert not abandoned_findings(commit_with_error(14) + join + '< {"error_code": 0, "generation_id": 2}\n+9s\n'), (
        "a client that rejoins has not given up"
    )
    assert not abandoned_findings(commit_with_error(25) + "+9s\n"), "G011 reports error 25"
    assert not abandoned_findings('> FindCoordinator v2 {"key": "g"}\n< {"error_code": 15}\n+9s\n'), (
        "a coordinator lookup need not be repeated"
    )
    assert not abandoned_findings(commit_with_error(28) + "+9s\n"), "error 28 is not transient"


def test_client_that_disconnects_after_a_transient_error_is_reported() -> None:
    last_attempt = commit_with_error(16) + "close by=client how=fin\n"
    [finding] = abandoned_findings(last_attempt + "+3s\n")
    assert finding.severity == "info"
    assert "and the client closed its connections without repeating it" in finding.message
    other_connection = "open 2 client=10.0.0.101:50009\n2> as app Metadata v8\n2< {}\n"
    assert not abandoned_findings(other_connection + last_attempt + "+3s\n"), "it has another connection"
    new_connection = "open 3 client=10.0.0.101:50010\n3" + commit_with_error(0).replace("> ", "> as app ").replace(
        "<", "3<", 1
    )
    assert not abandoned_findings(last_attempt + "+1s\n" + new_connection + "+9s\n"), "it has connected again"
    assert not abandoned_findings(commit_with_error(3) + "+9s\n"), "the topic does not exist"
    assert not abandoned_findings(commit_with_error(16) + "close by=server how=fin\n+3s\n"), "it may connect again"
    assert not abandoned_findings(commit_with_error(16) + "close\n+9s\n"), "nobody sees what the client does"
