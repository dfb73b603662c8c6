"""L014, L018, L021 to L025, L028, L029, L031, L032: spans, versions, and findings that are reported only once."""

import pytest

from tests.kproxy.stories import findings, lines_of_story


def frame_from_hex(hex_text: str) -> bytes:
    body = bytes.fromhex(hex_text)
    return len(body).to_bytes(4, "big") + body


METADATA_V0 = "0003 0000 00000001 ffff"
METADATA_V9 = "0003 0009 00000001 ffff 00"


@pytest.mark.parametrize(
    ("hex_text", "code", "path", "expected"),
    [
        (f"{METADATA_V0} 00000001 7fff 6162", "L022", "topics[0].name", "7fff"),
        (f"{METADATA_V0} fffffff0", "L022", "topics", "fffffff0"),
        ("0003 0000 00000001 fff0 00000000", "L022", "header.client_id", "fff0"),
        (f"{METADATA_V9} 02 8f8f8f7f 6162 00 010000 00", "L022", "topics[0].name", "8f8f8f7f"),
        (f"{METADATA_V9} 02 04616263 00 010000 01 05 ff7f 00", "L022", "_tags", "05"),
        ("002a 0000 00000001 ffff 00000001 7fff", "L022", "groups_names[0]", "7fff"),
        (f"{METADATA_V9} 02 ffffffffff01 616263 00 010000 00", "L024", "topics[0].name", "ffffffffff01"),
        (f"{METADATA_V9} 02 04616263 ffffffffff01 010000 00", "L024", "topics[0]._tags", "ffffffffff01"),
        (f"{METADATA_V9} 8100 010000 00", "L024", "topics", "8100"),
        ("0012 0000 00000001 0002 ffff", "L023", "header.client_id", "0002 ffff"),
        (f"{METADATA_V9} 02 03c3e9 00 010000 00", "L023", "topics[0].name", "03c3e9"),
        (f"{METADATA_V9} 00 010700 00", "L025", "include_cluster_authorized_operations", "07"),
        ("03e7 0000 00000001 ffff", "L031", "header.request_api_key", "03e7"),
        ("0003 0063 00000001 ffff", "L032", "header.request_api_version", "0063"),
    ],
)
def test_finding_points_at_the_wrong_bytes(hex_text: str, code: str, path: str, expected: str) -> None:
    wrong_frame = frame_from_hex(hex_text)
    [finding] = findings(f"> hex {wrong_frame.hex()}", code)
    assert finding.path == path
    assert wrong_frame[slice(*finding.span)] == bytes.fromhex(expected)
    assert finding.blame in ("client", None)


def test_impossible_length_explained_by_another_layout_is_not_reported() -> None:
    # a Metadata v1 response with the body of version 3: throttle_time_ms first
    story = """
    > Metadata v1 {"topics": [{"name": "orders"}]}
    < as Metadata v3 {"brokers": [{"node_id": 1, "host": "10.0.0.1", "port": 9092}], "cluster_id": "c",
      "topics": [{"name": "orders", "partitions": [{"leader_id": 1, "replica_nodes": [1], "isr_nodes": [1]}]}]}
    """
    codes = {finding.code for finding in findings(story)}
    assert codes
    assert not codes & {"L022", "L024"}


def test_invalid_strings_of_a_frame_are_reported_once_with_their_count() -> None:
    wrong_frame = frame_from_hex(f"{METADATA_V9} 03 03c3e9 00 03c3e9 00 010000 00")
    [finding] = findings(f"> hex {wrong_frame.hex()}", "L023")
    assert finding.message == "topics[0].name of Metadata v9 is not UTF-8, as are 1 more in this frame"


UNKNOWN_TAG = """
    > Metadata v9 {"topics": []}
    < {"brokers": [{"host": "a", "_tags": [[77, "00"]]}, {"host": "b", "_tags": [[77, "00"], [78, ""]]}]}
"""


def test_each_unknown_tag_number_is_reported_once() -> None:
    assert [finding.path for finding in findings(2 * UNKNOWN_TAG, "L014")] == [
        "brokers[0]._tags.tag 77",
        "brokers[1]._tags.tag 78",
    ]
    assert "carries tag 77 (1 byte)" in findings(UNKNOWN_TAG, "L014")[0].message


def test_unknown_tag_in_a_header_is_reported() -> None:
    wrong_frame = frame_from_hex("0003 0009 00000001 ffff 01 05 02 abcd 00 010000 00")
    [finding] = findings(f"> hex {wrong_frame.hex()}", "L014")
    assert finding.path == "header._tags.tag 5"
    assert wrong_frame[slice(*finding.span)] == bytes.fromhex("05 02 abcd")


def test_explicitly_written_default_is_reported_once() -> None:
    story = """
    > ApiVersions v3 {"client_software_name": "x", "client_software_version": "1"}
    < {"api_keys": [{"api_key": 18, "max_version": 3}], "finalized_features_epoch": -1, "supported_features": []}
    """
    reported = findings(2 * story, "L018")
    assert [finding.path for finding in reported] == ["_tags.supported_features", "_tags.finalized_features_epoch"]
    assert {finding.blame for finding in reported} == {"broker"}


@pytest.mark.parametrize("topics", ['{"topics": []}', '{"topics": null}'])
def test_empty_cluster_may_have_no_topics(topics: str) -> None:
    assert not findings(f'> Metadata v7 {topics}\n< {{"topics": []}}\n', "L021")


def test_response_to_an_undecodable_request_is_not_checked() -> None:
    request_frame = frame_from_hex(f"{METADATA_V0} 00000001 0009 61")
    assert not findings(f"> hex {request_frame.hex()}\n< #1 as Metadata v0 {{}}", "L021")


def test_missing_topics_of_a_known_cluster_are_reported_as_information() -> None:
    [finding] = findings(
        """
        > Metadata v0 {"topics": []}
        < {"topics": [{"name": "orders"}]}
        > Metadata v0 {"topics": []}
        < {"topics": []}
        """,
        "L021",
    )
    assert (finding.severity, "'orders' existed before" in finding.message) == ("info", True)


@pytest.mark.parametrize(
    ("metadata", "description"),
    [
        ("", "is empty"),
        ("00", "has no version: a payload of 1 bytes has no room for its version"),
        ("ffff 00", "has no version: ConsumerProtocolSubscription has no version -1"),
        ("0001 00000001 0001 61 00000000", "has version 1 but ends after 13 bytes, before its owned_partitions"),
        ("0000 00000001 0009 61", "has version 0 but cannot be read at topics[0]: length 9 does not fit: 1 byte left"),
        ("0063 00000000 00000000", "has version 99 but ends after 10 bytes, before its owned_partitions"),
    ],
)
def test_invalid_subscription_is_described(metadata: str, description: str) -> None:
    story = f"""
    > JoinGroup v5 {{"group_id": "g", "protocol_type": "consumer",
      "protocols": [{{"name": "range", "metadata": "{metadata}"}}]}}
    """
    [finding] = findings(story, "L028")
    assert finding.message == f"the subscription for 'range' that a member sends to group 'g' {description}"
    assert finding.path == "protocols[0].metadata"


LEADER_SYNC = """> SyncGroup v5 {"group_id": "g", "generation_id": 1, "member_id": "m-1", "protocol_type": "consumer",
  "assignments": [{"member_id": "m-1", "assignment": "%s"}]}
"""


def test_leader_that_omits_members_is_reported_as_information() -> None:
    story = (
        '> SyncGroup v5 {"group_id": "g", "generation_id": 1, "member_id": "m-2", "protocol_type": "consumer"}\n< {}\n'
    )
    [finding] = findings(story, "L029")
    assert (finding.severity, finding.blame) == ("info", "client")


def test_assignment_shortened_by_the_broker_is_blamed_on_it() -> None:
    [finding] = findings(LEADER_SYNC % ("00" * 10) + '< {"assignment": "0000 00000000"}', "L029")
    assert (finding.severity, finding.blame, finding.path) == ("warning", "broker", "assignment")
    assert finding.message.endswith("before its user_data, although the leader sent 10 bytes")


def test_invalid_assignment_of_the_leader_is_not_blamed_on_the_broker() -> None:
    [finding] = findings(LEADER_SYNC % "0000 00000000" + '< {"assignment": "0000 00000000"}', "L029")
    assert (finding.blame, finding.path) == ("client", "assignments[0].assignment")


def test_assignments_of_other_group_types_are_not_checked() -> None:
    story = """
    > JoinGroup v2 {"group_id": "c", "protocol_type": "connect"}
    < {"generation_id": 1, "member_id": "m", "leader": "m"}
    > SyncGroup v0 {"group_id": "c", "generation_id": 1, "member_id": "m",
      "assignments": [{"member_id": "m", "assignment": "00"}]}
    < {"assignment": ""}
    """
    assert not findings(story, "L029")


def test_unsolicited_frames_raise_no_exception() -> None:
    assert lines_of_story(
        "< hex 0000000c 00000001 00000000 00000000\n> hex 0000000c 000e 0005 00000001 ffff 0000\nclose"
    )


def test_payloads_with_the_same_error_are_reported_once_with_their_count() -> None:
    start, valid_metadata = (
        "00 00 00 01 00 06 6f 72 64 65 72 73 00 00 00 0",
        "00 00 00 00 00 01 00 06 6f 72 64 65 72 73 00 00 00 00",
    )
    metadata = (f"{start}0", valid_metadata, f"{start}1 61", f"00 {start}0")
    members = ",".join(
        f'{{"member_id": "m-{index}", "member_metadata": "{payload}"}}' for index, payload in enumerate(metadata)
    )
    [finding] = findings(
        f"""
        > DescribeGroups v0 {{"groups": ["g"]}}
        < {{"groups": [{{"group_id": "g", "group_state": "Stable", "protocol_type": "consumer",
          "members": [{members}]}}]}}
        """,
        "L037",
    )
    assert finding.message.endswith("header.version is missing, in 2 payloads of this frame")
    assert finding.path == "groups[0].members[0].member_metadata"
