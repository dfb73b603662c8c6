"""Family V where the pages' stories do not say it: the data, spans, thresholds, and what is forgotten."""

import json

import pytest

from dissectors import rules
from dissectors.schemas import removed_versions
from dissectors.trackers.state import ConnectionState, RunState
from dissectors.trackers.versions import MAX_APIS, MAX_SERVERS, Servers, Versions, client_text, range_text
from kproxy.inspection.explain import explain
from kproxy.trace.lines import FindingEntry
from tests.kproxy.stories import Teller, findings

ASK = '> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}\n'
KAFKA_4 = """< {"api_keys": [{"api_key": 0, "max_version": 13}, {"api_key": 1, "min_version": 4, "max_version": 18},
     {"api_key": 2, "min_version": 1, "max_version": 11}, {"api_key": 3, "max_version": 13},
     {"api_key": 8, "min_version": 2, "max_version": 10}, {"api_key": 11, "max_version": 9},
     {"api_key": 18, "max_version": 4}]}
"""


def codes(story: str) -> list[str]:
    return [finding.code for finding in findings(story) if finding.code.startswith("V")]


@pytest.mark.parametrize(("level", "is_observed"), [(1, True), (2, False)])
def test_produce_requests_are_observed_only_if_the_cluster_is_below_their_transactions(
    level: int, is_observed: bool
) -> None:
    feature = {"name": "transaction.version", "max_version_level": level, "min_version_level": level}
    teller = Teller()
    teller.tell(
        ASK + f'< {{"finalized_features_epoch": 7, "finalized_features": [{json.dumps(feature)}], '
        '"api_keys": [{"api_key": 0, "max_version": 12}, {"api_key": 18, "max_version": 4}]}\n'
    )
    assert ("V015 Produce" in teller.inspector._inspection.run_state.subscribed) is is_observed


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
def test_what_kafka_4_removed_follows_from_the_data(key: int, version: int, is_removed: bool) -> None:
    assert removed_versions.is_removed(key, version) is is_removed


def test_the_data_ends_at_a_release_of_kafka_4_or_later() -> None:
    assert int(removed_versions.newest_release().split(".")[0]) >= 4


def test_a_table_that_says_little_is_not_taken_for_kafka_4() -> None:
    assert not removed_versions.advertised_for_show(0, 2, {0: (0, 13), 1: (4, 18)})


def test_the_span_is_the_version_in_the_header() -> None:
    [finding] = findings(ASK + KAFKA_4 + "> Fetch v2 {}", "V002")
    assert isinstance(finding, FindingEntry)
    assert (finding.span, finding.path) == ((6, 8), "header.request_api_version")
    assert "v4" in finding.message


def test_an_api_that_is_not_advertised_is_the_key_in_the_header() -> None:
    [finding] = findings(ASK + KAFKA_4 + "> DescribeCluster v0 {}", "V001")
    assert isinstance(finding, FindingEntry)
    assert (finding.span, finding.path) == ((4, 6), "header.request_api_key")


def test_a_version_that_no_schema_has_is_above_the_highest_too() -> None:
    # Metadata v99: correlation id 9, no client id
    story = '< {"api_keys": [{"api_key": 3, "max_version": 9}]}\n> hex 0000000a 0003 0063 00000009 ffff'
    assert "V001" in codes(ASK + story)


def test_old_produce_is_named_once_by_the_rule_that_fits_the_server() -> None:
    produce = '> Produce v2 {"acks": 1}'
    assert codes(ASK + KAFKA_4 + produce) == ["V012"]
    assert codes("open 1\n" + produce) == ["V011"]
    assert codes(ASK + KAFKA_4.replace('"api_key": 0,', '"api_key": 0, "min_version": 3,') + produce) == ["V002"]


def test_a_client_is_told_once_per_api_whatever_its_versions_and_connections() -> None:
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


def test_the_ranges_that_come_with_a_refusal_are_not_the_servers() -> None:
    refusal = '< as ApiVersions v0 {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 2}]}\n'
    assert codes(ASK + refusal + "> Metadata v9 {}") == []


def test_ranges_that_are_none_are_not_relied_on() -> None:
    table = '< {"api_keys": [{"api_key": 3, "min_version": 9, "max_version": 5}, {"api_key": 1}, {"api_key": 18}]}\n'
    assert codes(ASK + table + "> Metadata v9 {}\n> Fetch v12 {}") == ["V009"]


def test_a_table_of_nonsense_departs_and_is_not_many_bad_ranges() -> None:
    assert codes(ASK + '< {"api_keys": [{"api_key": 3, "min_version": -1, "max_version": -9}]}') == []


def test_a_broken_apiversions_response_starts_no_chain() -> None:
    # throttle_time_ms appended to version 0
    story = """
        > ApiVersions v0 {}
        < hex 00000014 00000001 0000 00000001 0003 0000 0009 00000000
        > Metadata v9 {}
        < {}
    """
    assert codes(story) == []


def test_a_lone_frame_is_for_information_only() -> None:
    asked = bytes.fromhex("0000000e 0003 0000 00000001 ffff 00000000")
    answer = bytes.fromhex("0000000c 00000001 00000000 00000000")
    explained = explain(asked), explain(answer, request=asked), explain(answer, answered=(3, 0))
    found = [finding for each in explained for finding in each.findings]
    assert [finding.code for finding in found if finding.code.startswith("V")] == []


def test_a_restart_that_catches_a_long_join_is_silent() -> None:
    restart = ASK + KAFKA_4 + '> JoinGroup v5 {"group_id": "g"}\n+30s\nclose by=server how=reset\n'
    assert codes("2> ApiVersions v0 {}\n2" + KAFKA_4 + 4 * restart) == []


def test_a_version_that_was_ever_answered_is_served() -> None:
    closed = ASK + KAFKA_4 + '> JoinGroup v5 {"group_id": "g"}\nclose by=server\n'
    answered = ASK + KAFKA_4 + '> JoinGroup v5 {"group_id": "g"}\n< {}\nclose by=client\n'
    metadata = "2> FindCoordinator v2 {}\n2< {}\n"
    assert "V007" in codes(metadata + 3 * closed)
    assert "V007" not in codes(metadata + answered + 5 * closed)
    assert "V007" not in codes(metadata + 2 * closed)


def test_it_takes_an_authenticated_connection_where_nobody_is_let_in_without() -> None:
    sasl = '> SaslHandshake v1 {"mechanism": "PLAIN"}\n< {}\n> SaslAuthenticate v0 {}\n< {}\n'
    table = '< {"api_keys": [{"api_key": 11, "max_version": 9}, {"api_key": 17, "max_version": 1}, {"api_key": 36}]}\n'
    join = '> JoinGroup v5 {"group_id": "g"}\nclose by=server\n'
    assert "V007" not in codes(3 * (ASK + table + join))
    assert "V007" in codes(3 * (ASK + table + sasl + join))


def test_a_failed_login_explains_why_the_server_closes() -> None:
    refused = b'{"status":"invalid_token"}'.hex(" ")
    sasl = (
        '> SaslHandshake v1 {"mechanism": "OAUTHBEARER"}\n< {"mechanisms": ["OAUTHBEARER"]}\n'
        '> SaslAuthenticate v1 {"auth_bytes": "6e 2c 2c 01 61 75 74 68 3d 42 65 61 72 65 72 20 61 01 01"}\n< {%s}\n'
    )
    table = '< {"api_keys": [{"api_key": 3, "max_version": 9}, {"api_key": 17, "max_version": 1}, {"api_key": 36}]}\n'
    closed = "> Metadata v9 {}\nclose by=server\n"
    assert "V007" not in codes(3 * (ASK + table + sasl % f'"auth_bytes": "{refused}"' + closed))
    assert "V007" in codes(3 * (ASK + table + sasl % "" + closed))


def test_bytes_that_were_lost_explain_an_answer_that_is_missing() -> None:
    closed = ASK + KAFKA_4 + 'lose < 100\n> JoinGroup v5 {"group_id": "g"}\nclose by=server\n'
    assert "V007" not in codes("2> Metadata v4 {}\n2< {}\n" + 4 * closed)


def test_a_refusal_of_telemetry_is_nobodys_fault() -> None:
    assert codes('> GetTelemetrySubscriptions v0 {}\n< {"error_code": 35}') == []


def test_kafka_3_9_without_transactions_v2_has_no_say_in_produce_outside_them() -> None:
    unknown = '< {"api_keys": [{"api_key": 0, "max_version": 13}, {"api_key": 18, "max_version": 4}]}\n'
    assert codes(ASK + unknown + '> Produce v12 {"transactional_id": "t", "acks": -1}') == []


def test_a_member_that_did_not_get_in_may_commit_as_it_likes() -> None:
    story = """
        > ConsumerGroupHeartbeat v0 {"group_id": "g", "member_epoch": 0}
        < {"error_code": 25, "member_id": "m-1"}
        > OffsetCommit v8 {"group_id": "g", "member_id": "m-1"}
    """
    assert codes(story) == []


def test_both_names_are_looked_at_and_long_ones_cut() -> None:
    story = f'> ApiVersions v3 {{"client_software_name": "{"_" * 900}", "client_software_version": " "}}'
    found = findings(story, "V016")
    paths = [finding.path for finding in found if isinstance(finding, FindingEntry)]
    assert paths == ["client_software_name", "client_software_version"]
    assert all(finding.severity == "info" and len(finding.message) < 120 for finding in found)


def test_the_first_zero_id_of_a_fetch_is_enough() -> None:
    topics = ", ".join(3 * ['{"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}'])
    [lone] = findings(f'> Fetch v13 {{"topics": [{topics}]}}', "V013")
    assert isinstance(lone, FindingEntry)
    assert (lone.severity, lone.path) == ("info", "topics[0].topic_id")


def test_answers_that_nobody_asked_for_and_frames_of_nothing_are_passed_over() -> None:
    assert codes("< hex 00000006 00000007 0023\n> hex 00000008 0012 0003 00000001\nclose by=server") == []


def test_memory_is_bounded() -> None:
    cluster = RunState(rules.trackers())
    for number in range(MAX_SERVERS + 10):
        talk = ConnectionState(cluster, server=f"10.0.0.1:{number}")
        talk.state(Versions).server(talk)
    assert len(cluster.state(Servers).by_address) == MAX_SERVERS
    table = ", ".join(f'{{"api_key": {key}}}' for key in range(MAX_APIS + 1))
    assert codes(ASK + f'< {{"api_keys": [{table}]}}\n> Metadata v9 {{}}') == []


def test_names_for_people() -> None:
    assert (range_text((3, 3)), range_text((0, 9))) == ("v3", "v0-v9")
    assert client_text(ConnectionState(client_id="x" * 500)) == "x" * 100
    assert client_text(ConnectionState()) == "a client without a name"


def test_an_api_that_nobody_knows_is_not_called_unadvertised() -> None:
    assert codes(ASK + KAFKA_4 + "> hex 0000000a 03e7 0000 00000009 ffff") == []


def test_only_what_kafka_4_removed_is_explained_by_it() -> None:
    table = '< {"api_keys": [{"api_key": 3, "min_version": 5, "max_version": 9}, {"api_key": 18}]}\n'
    [finding] = findings(ASK + table + "> Metadata v4 {}", "V002")
    assert finding.hint is not None
    assert "KIP-896" not in finding.hint


def test_a_connection_counts_once_however_often_it_is_refused() -> None:
    refused = '< as ApiVersions v0 {"error_code": 35}\n'
    twice = ASK + refused + ASK + refused + "close by=client\n"
    assert "V006" not in codes("open 1 client=10.0.0.7:1\n" + twice + "open 1 client=10.0.0.7:2\n" + twice)


def test_a_higher_version_that_is_answered_says_nothing_of_a_lower_one() -> None:
    cut = '> ApiVersions v3 {"client_software_name": "app", "client_software_version": "1"}\nclose by=server\n'
    higher = '> ApiVersions v4 {"client_software_name": "app", "client_software_version": "1"}\n< {}\nclose\n'
    assert "V005" not in codes(3 * (cut + higher))


def test_brokers_that_agree_are_silent() -> None:
    metadata = '> Metadata v9 {}\n< {"cluster_id": "c"}\n'
    first = "open 1 server=10.0.0.1:9092\n" + ASK + KAFKA_4 + metadata + "close\n"
    assert codes(first + first.replace("10.0.0.1", "10.0.0.2")) == []


def test_a_software_is_told_once_of_what_it_goes_without() -> None:
    table = '< {"api_keys": [{"api_key": 1, "max_version": 17}]}\n'
    assert codes(ASK + table + "> Fetch v5 {}\n> Fetch v6 {}") == ["V017"]


def test_ids_that_are_there_are_silent() -> None:
    topics = '{"topics": [{"name": "a", "topic_id": "-FkoY1JvQ3qEtSxJ1Xq9wA"}]}'
    assert codes(ASK + KAFKA_4 + f"> Metadata v12 {{}}\n< {topics}") == []
