"""Family V, beyond the stories on its pages: data, spans, thresholds and limits of memory."""

import json

import pytest

from dissectors import rules
from dissectors.schemas import removed_versions
from dissectors.trackers.state import ConnectionState, RunState
from dissectors.trackers.versions import MAX_APIS, MAX_SERVERS, Servers, Versions, client_text, range_text
from kproxy.inspection.explain import explain
from kproxy.trace.lines import FindingEntry
from tests.kproxy.stories import StoryPlayer, findings

REQUEST = '> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}\n'
KAFKA_4 = """< {"api_keys": [{"api_key": 0, "max_version": 13}, {"api_key": 1, "min_version": 4, "max_version": 18},
     {"api_key": 2, "min_version": 1, "max_version": 11}, {"api_key": 3, "max_version": 13},
     {"api_key": 8, "min_version": 2, "max_version": 10}, {"api_key": 11, "max_version": 9},
     {"api_key": 18, "max_version": 4}]}
"""


def version_codes(story: str) -> list[str]:
    return [finding.code for finding in findings(story) if finding.code.startswith("V")]


@pytest.mark.parametrize(("level", "is_observed"), [(1, True), (2, False)])
def test_produce_is_observed_only_below_transaction_version_2(level: int, is_observed: bool) -> None:
    feature = {"name": "transaction.version", "max_version_level": level, "min_version_level": level}
    player = StoryPlayer()
    player.play(
        REQUEST + f'< {{"finalized_features_epoch": 7, "finalized_features": [{json.dumps(feature)}], '
        '"api_keys": [{"api_key": 0, "max_version": 12}, {"api_key": 18, "max_version": 4}]}\n'
    )
    assert ("V015 Produce" in player.inspector._inspection.run_state.subscribed) is is_observed


@pytest.mark.parametrize(
    ("key", "version", "is_removed"),
    [
        (0, 2, True),  # Produce
        (0, 3, False),
        (1, 3, True),  # Fetch
        (8, 1, True),  # OffsetCommit
        (11, 0, False),  # JoinGroup: back since Kafka 4.0.1
        (18, 0, False),  # ApiVersions
        (4, 7, True),  # LeaderAndIsr: gone with ZooKeeper
        (999, 0, False),
    ],
)
def test_versions_removed_in_kafka_4_follow_from_the_schemas(key: int, version: int, is_removed: bool) -> None:
    assert removed_versions.is_removed(key, version) is is_removed


def test_schemas_include_a_kafka_4_release() -> None:
    assert int(removed_versions.newest_release().split(".")[0]) >= 4


def test_short_version_table_is_not_taken_for_kafka_4() -> None:
    assert not removed_versions.is_advertised_only(0, 2, {0: (0, 13), 1: (4, 18)})


def test_unsupported_version_is_reported_at_the_version_field() -> None:
    [finding] = findings(REQUEST + KAFKA_4 + "> Fetch v2 {}", "V002")
    assert isinstance(finding, FindingEntry)
    assert (finding.span, finding.path) == ((6, 8), "header.request_api_version")
    assert "v4" in finding.message


def test_unadvertised_api_is_reported_at_the_api_key() -> None:
    [finding] = findings(REQUEST + KAFKA_4 + "> DescribeCluster v0 {}", "V001")
    assert isinstance(finding, FindingEntry)
    assert (finding.span, finding.path) == ((4, 6), "header.request_api_key")


def test_version_above_the_schemas_is_above_the_advertised_range() -> None:
    # Metadata v99: correlation id 9, no client id
    story = '< {"api_keys": [{"api_key": 3, "max_version": 9}]}\n> hex 0000000a 0003 0063 00000009 ffff'
    assert "V001" in version_codes(REQUEST + story)


def test_old_produce_version_is_reported_by_one_rule() -> None:
    produce = '> Produce v2 {"acks": 1}'
    assert version_codes(REQUEST + KAFKA_4 + produce) == ["V012"]
    assert version_codes("open 1\n" + produce) == ["V011"]
    assert version_codes(REQUEST + KAFKA_4.replace('"api_key": 0,', '"api_key": 0, "min_version": 3,') + produce) == [
        "V002"
    ]


def test_old_version_is_reported_once_per_client_and_api() -> None:
    story = """
        > as old Fetch v0 {}
        > as old Fetch v1 {}
        2> as old Fetch v2 {}
        2> as old ListOffsets v0 {}
        open 3 server=10.0.0.9:9092
        3> as new Fetch v2 {}
    """
    assert [finding.message.split(",")[0] for finding in findings(story, "V011")] == [
        "old uses Fetch v0",
        "old uses ListOffsets v0",
        "new uses Fetch v2",
    ]


def test_version_ranges_in_a_refusal_are_ignored() -> None:
    refusal = '< as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 2}]}\n'
    assert version_codes(REQUEST + refusal + "> Metadata v9 {}") == []


def test_invalid_ranges_are_ignored() -> None:
    version_table = (
        '< {"api_keys": [{"api_key": 3, "min_version": 9, "max_version": 5}, {"api_key": 1}, {"api_key": 18}]}\n'
    )
    assert version_codes(REQUEST + version_table + "> Metadata v9 {}\n> Fetch v12 {}") == ["V009"]


def test_nonsense_table_is_not_reported_as_bad_ranges() -> None:
    assert version_codes(REQUEST + '< {"api_keys": [{"api_key": 3, "min_version": -1, "max_version": -9}]}') == []


def test_broken_apiversions_response_causes_no_further_findings() -> None:
    # throttle_time_ms appended to version 0
    story = """
        > ApiVersions v0 {}
        < hex 00000014 00000001 0000 00000001 0003 0000 0009 00000000
        > Metadata v9 {}
        < {}
    """
    assert version_codes(story) == []


def test_single_frame_has_no_version_findings() -> None:
    request_frame = bytes.fromhex("0000000e 0003 0000 00000001 ffff 00000000")
    response_frame = bytes.fromhex("0000000c 00000001 00000000 00000000")
    explanations = (
        explain(request_frame),
        explain(response_frame, request=request_frame),
        explain(response_frame, answered_request=(3, 0)),
    )
    reported = [finding for explanation in explanations for finding in explanation.findings]
    assert [finding.code for finding in reported if finding.code.startswith("V")] == []


def test_restart_during_a_long_join_is_not_reported() -> None:
    closed_join = REQUEST + KAFKA_4 + '> JoinGroup v5 {"group_id": "g"}\n+30s\nclose by=server how=reset\n'
    assert version_codes("2> ApiVersions v0 {}\n2" + KAFKA_4 + 4 * closed_join) == []


def test_answered_version_counts_as_served() -> None:
    unanswered_join = REQUEST + KAFKA_4 + '> JoinGroup v5 {"group_id": "g"}\nclose by=server\n'
    answered_join = REQUEST + KAFKA_4 + '> JoinGroup v5 {"group_id": "g"}\n< {}\nclose by=client\n'
    other_exchange = "2> FindCoordinator v2 {}\n2< {}\n"
    assert "V007" in version_codes(other_exchange + 3 * unanswered_join)
    assert "V007" not in version_codes(other_exchange + answered_join + 5 * unanswered_join)
    assert "V007" not in version_codes(other_exchange + 2 * unanswered_join)


def test_unserved_api_needs_an_authenticated_connection() -> None:
    sasl = '> SaslHandshake v1 {"mechanism": "PLAIN"}\n< {}\n> SaslAuthenticate v0 {}\n< {}\n'
    version_table = (
        '< {"api_keys": [{"api_key": 11, "max_version": 9}, {"api_key": 17, "max_version": 1}, {"api_key": 36}]}\n'
    )
    join = '> JoinGroup v5 {"group_id": "g"}\nclose by=server\n'
    assert "V007" not in version_codes(3 * (REQUEST + version_table + join))
    assert "V007" in version_codes(3 * (REQUEST + version_table + sasl + join))


def test_failed_login_explains_a_closed_connection() -> None:
    refusal = b'{"status":"invalid_token"}'.hex(" ")
    sasl = (
        '> SaslHandshake v1 {"mechanism": "OAUTHBEARER"}\n< {"mechanisms": ["OAUTHBEARER"]}\n'
        '> SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 01 61 75 74 68 3d 42 65 61 72 65 72 20 61 01 01"}\n< {%s}\n'
    )
    version_table = (
        '< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 17, "max_version": 1}, {"api_key": 36}]}\n'
    )
    request_and_close = "> Metadata v9 {}\nclose by=server\n"
    assert "V007" not in version_codes(
        3 * (REQUEST + version_table + sasl % f'"auth_bytes": "{refusal}"' + request_and_close)
    )
    assert "V007" in version_codes(3 * (REQUEST + version_table + sasl % "" + request_and_close))


def test_lost_bytes_explain_a_missing_response() -> None:
    unanswered_join = REQUEST + KAFKA_4 + 'lose < 100\n> JoinGroup v5 {"group_id": "g"}\nclose by=server\n'
    assert "V007" not in version_codes("2> Metadata v4 {}\n2< {}\n" + 4 * unanswered_join)


def test_refused_telemetry_is_not_reported() -> None:
    assert version_codes('> GetTelemetrySubscriptions v0 {}\n< {"error_code": 35}') == []


def test_unknown_transaction_version_does_not_restrict_produce() -> None:
    version_table = '< {"api_keys": [{"api_key": 0, "max_version": 13}, {"api_key": 18, "max_version": 4}]}\n'
    assert version_codes(REQUEST + version_table + '> Produce v12 {"transactional_id": "t", "acks": -1}') == []


def test_refused_member_may_commit_in_any_version() -> None:
    story = """
        > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_epoch": 0}
        < {"error_code": 25, "member_id": "m-1"}
        > OffsetCommit v8 {"group_id": "g", "member_id": "m-1"}
    """
    assert version_codes(story) == []


def test_both_software_names_are_checked_and_shortened() -> None:
    story = f'> ApiVersions v3 {{"client_software_name": "{"_" * 900}", "client_software_version": " "}}'
    reported = findings(story, "V016")
    paths = [finding.path for finding in reported if isinstance(finding, FindingEntry)]
    assert paths == ["client_software_name", "client_software_version"]
    assert all(finding.severity == "info" and len(finding.message) < 120 for finding in reported)


def test_only_the_first_zero_topic_id_of_a_fetch_is_reported() -> None:
    topics = ", ".join(3 * ['{"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}'])
    [finding] = findings(f'> Fetch v13 {{"topics": [{topics}]}}', "V013")
    assert isinstance(finding, FindingEntry)
    assert (finding.severity, finding.path) == ("info", "topics[0].topic_id")


def test_stray_responses_and_empty_frames_are_ignored() -> None:
    assert version_codes("< hex 00000006 00000007 0023\n> hex 00000008 0012 0003 00000001\nclose by=server") == []


def test_memory_is_bounded() -> None:
    run = RunState(rules.trackers())
    for number in range(MAX_SERVERS + 10):
        connection = ConnectionState(run, server=f"10.0.0.1:{number}")
        connection.state(Versions).server(connection)
    assert len(run.state(Servers).by_address) == MAX_SERVERS
    version_table = ", ".join(f'{{"api_key": {key}}}' for key in range(MAX_APIS + 1))
    assert version_codes(REQUEST + f'< {{"api_keys": [{version_table}]}}\n> Metadata v9 {{}}') == []


def test_version_ranges_and_clients_are_shown_in_a_readable_form() -> None:
    assert (range_text((3, 3)), range_text((0, 9))) == ("v3", "v0-v9")
    assert client_text(ConnectionState(client_id="x" * 500)) == "x" * 100
    assert client_text(ConnectionState()) == "a client without a name"


def test_unknown_api_is_not_called_unadvertised() -> None:
    assert version_codes(REQUEST + KAFKA_4 + "> hex 0000000a 03e7 0000 00000009 ffff") == []


def test_only_versions_removed_in_kafka_4_mention_the_kip() -> None:
    version_table = '< {"api_keys": [{"api_key": 3, "min_version": 5, "max_version": 9}, {"api_key": 18}]}\n'
    [finding] = findings(REQUEST + version_table + "> Metadata v4 {}", "V002")
    assert finding.hint is not None
    assert "KIP-896" not in finding.hint


def test_connection_counts_once_however_often_it_is_refused() -> None:
    refusal = '< as ApiVersions v0 {"error_code": 35}\n'
    connection_lines = REQUEST + refusal + REQUEST + refusal + "close by=client\n"
    assert "V006" not in version_codes(
        "open 1 client=10.0.0.7:1\n" + connection_lines + "open 1 client=10.0.0.7:2\n" + connection_lines
    )


def test_answered_higher_version_proves_nothing_about_a_lower_one() -> None:
    closed_request = (
        '> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}\nclose by=server\n'
    )
    answered_request = '> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}\n< {}\nclose\n'
    assert "V005" not in version_codes(3 * (closed_request + answered_request))


def test_brokers_that_agree_are_not_reported() -> None:
    metadata = '> Metadata v9 {}\n< {"cluster_id": "c"}\n'
    first_broker = "open 1 server=10.0.0.1:9092\n" + REQUEST + KAFKA_4 + metadata + "close\n"
    assert version_codes(first_broker + first_broker.replace("10.0.0.1", "10.0.0.2")) == []


def test_outdated_software_is_reported_once() -> None:
    version_table = '< {"api_keys": [{"api_key": 1, "max_version": 17}]}\n'
    assert version_codes(REQUEST + version_table + "> Fetch v5 {}\n> Fetch v6 {}") == ["V017"]


def test_valid_topic_ids_are_not_reported() -> None:
    topics = '{"topics": [{"name": "a", "topic_id": "-FkoY1JvQ3qEtSxJ1Xq9wA"}]}'
    assert version_codes(REQUEST + KAFKA_4 + f"> Metadata v12 {{}}\n< {topics}") == []
