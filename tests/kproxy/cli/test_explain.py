"""`kproxy explain`: frames as people paste them."""

import itertools
import json
from pathlib import Path

import pytest

from dissectors.records import encode
from tests.kproxy.capture.packets import ipv4, tcp
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import request, response, with_length_prefix

MISSING = "the length prefix is missing; offsets count from the first byte given"
PASTED = Path(__file__).parents[2] / "data" / "pasted"
METADATA = "00 00 00 12 00 03 00 00 00 00 00 01 00 04 74 65 73 74 00 00 00 00"
XXD = """\
00000000: 0000 0012 0003 0000 0000 0001 0004 7465  ..............te
00000010: 7374 0000 0000                           st....
"""
HEXDUMP = """\
00000000  00 00 00 12 00 03 00 00  00 00 00 01 00 04 74 65  |..............te|
00000010  73 74 00 00 00 00                                 |st....|
00000016
"""
EXPECTED = [
    ("00 00 00 12", "size", "18"),
    ("00 03", "header.request_api_key", "3"),
    ("00 00", "header.request_api_version", "0"),
    ("00 00 00 01", "header.correlation_id", "1"),
    ("00 04 74 65 73 74", "header.client_id", '"test"'),
    ("00 00 00 00", "topics", "[]"),
]


@pytest.mark.parametrize(
    "pasted",
    [
        METADATA,
        METADATA.replace(" ", ""),
        METADATA.replace(" 00 03", "\n00 03"),
        " ".join("0x" + byte for byte in METADATA.split()),
        XXD,
        HEXDUMP,
    ],
)
def test_explain_shows_a_request_byte_by_byte(kproxy: Run, pasted: str) -> None:
    result = kproxy("explain", "-", stdin=pasted)
    assert result.returncode == 0, result.stderr
    title, *rows = result.stdout.splitlines()
    assert title == "Metadata v0 request, 22 bytes"
    for row, (hex_bytes, path, value) in zip(rows, EXPECTED, strict=True):
        assert hex_bytes in row
        assert f" {path} " in row
        assert value in row


def test_accepts_hex_in_several_arguments(kproxy: Run) -> None:
    assert kproxy("explain", *METADATA.split()).returncode == 0


def test_reports_a_wrong_length_prefix_and_the_correct_one(kproxy: Run) -> None:
    result = kproxy("explain", METADATA.replace("12", "22", 1))
    assert result.returncode == 1
    assert "the length prefix is 34, but 18 bytes follow it; the correct prefix is 00 00 00 12" in result.stderr
    assert "Metadata v0 request" in result.stdout


def test_explain_accepts_a_request_without_its_length_prefix(kproxy: Run) -> None:
    result = kproxy("explain", METADATA[12:])
    assert result.stderr == f"note: {MISSING}\n"
    assert result.returncode == 0
    title, key, *_ = result.stdout.splitlines()
    assert title == "Metadata v0 request, 18 bytes"
    assert key.split()[:4] == ["0", "0000", "00", "03"]


#: A response as a gateway logged it.
LOGGED = "0000000100000000000000093132372e302e302e310000fe6c"


def test_explains_a_response_without_its_length_prefix(kproxy: Run) -> None:
    request_hex = request("FindCoordinator", 0, {"key": "g"}).hex()
    for options in (
        ["--api", "FindCoordinator", "--version", "0"],
        ["--request", request_hex],
        ["--request", request_hex[8:]],
    ):
        result = kproxy("explain", *options, LOGGED)
        assert (result.returncode, result.stderr) == (0, f"note: {MISSING}\n")
        title, correlation_id, *_, port = result.stdout.splitlines()
        assert title == "FindCoordinator v0 response, 25 bytes"
        assert correlation_id.split()[:3] == ["0", "0000", "00"]
        assert port.split() == ["21", "0015", "00", "00", "fe", "6c", "port", "65132"]


@pytest.mark.slow
def test_suggests_the_api_of_a_response(kproxy: Run) -> None:
    result = kproxy("explain", LOGGED)
    assert result.returncode == 2
    note, sentence = result.stderr.splitlines()
    assert note == f"note: {MISSING}"
    assert sentence.endswith("pass --request HEX, or --api FindCoordinator --version 0")


def test_json_reports_a_missing_prefix_and_counts_offsets_without_it(kproxy: Run) -> None:
    result = kproxy("explain", "--json", "--api", "FindCoordinator", "--version", "0", LOGGED)
    line = {"frame": LOGGED, "type": "response", "api_key": 10, "version": 0}
    prefixed_frame = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132}).hex()
    lines = json.dumps(line) + "\n" + json.dumps(line | {"frame": prefixed_frame})
    from_lines = kproxy("explain", "--json", "-", stdin=lines)
    assert (result.returncode, from_lines.returncode) == (0, 0)
    missing, with_prefix = map(json.loads, from_lines.stdout.splitlines())
    assert json.loads(result.stdout) == missing
    assert missing["length_prefix"] == "missing"
    assert "length_prefix" not in with_prefix
    size, *fields = with_prefix["fields"]
    assert (size["path"], size["span"]) == ("size", [0, 4])
    assert missing["fields"] == [field | {"span": [field["span"][0] - 4, field["span"][1] - 4]} for field in fields]


def test_findings_of_a_frame_without_prefix_have_offsets_in_the_input(kproxy: Run) -> None:
    frame = response("Metadata", 1, {"topics": [{"name": "a", "is_internal": True, "partitions": []}]})[4:]
    invalid_frame = frame.replace(b"\x01a\x01", b"\x01a\x02")  # a boolean that is neither 0 nor 1
    result = kproxy("explain", "--json", "--select", "L", "--api", "Metadata", "--version", "1", invalid_frame.hex())
    parsed = json.loads(result.stdout)
    assert parsed["length_prefix"] == "missing"
    [finding] = parsed["findings"]
    assert invalid_frame[slice(*finding["span"])] == b"\x02"


@pytest.mark.parametrize("hex_text", ["00", "00 00 00 01", "00 00 00 03 00 00 00"])
@pytest.mark.parametrize("options", [[], ["--api", "Metadata", "--version", "0"]])
def test_too_short_input_is_reported_in_one_sentence(kproxy: Run, hex_text: str, options: list[str]) -> None:
    result = kproxy("explain", *options, hex_text)
    count = len(bytes.fromhex(hex_text))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f"kproxy: too short for a frame: {count} byte{'s' * (count != 1)} given, "
        "but the length prefix and the shortest header take 8\n"
    )


def test_explains_several_frames(kproxy: Run) -> None:
    result = kproxy("explain", METADATA + METADATA)
    assert result.returncode == 0
    assert result.stdout.count("Metadata v0 request") == 2


@pytest.mark.parametrize(("name", "exchange_count"), [("tcpdump-X.txt", 2), ("tshark-follow.txt", 1)])
def test_pairs_requests_and_responses_of_both_directions(kproxy: Run, name: str, exchange_count: int) -> None:
    result = kproxy("explain", "-", stdin=(PASTED / name).read_text())
    assert result.returncode == 1, result.stderr
    titles = [line for line in result.stdout.splitlines() if line.endswith(" bytes") and line.startswith("Find")]
    assert titles == ["FindCoordinator v0 request, 26 bytes", "FindCoordinator v0 response, 35 bytes"] * exchange_count
    assert result.stdout.count("L006 body-version-mismatch") == exchange_count


def test_invalid_frame_does_not_stop_the_others(kproxy: Run) -> None:
    lone_response = response("SaslHandshake", 1, {"error_code": 33, "mechanisms": ["PLAIN"]}, correlation_id=-2)
    result = kproxy("explain", "-", stdin=f"{list(lone_response)}\n{list(bytes.fromhex(METADATA))}\n")
    assert result.returncode == 2
    assert "Metadata v0 request" in result.stdout
    assert "frame 2: this is not a request, and a response does not name its API" in result.stderr


def test_reports_packets_without_payload(kproxy: Run) -> None:
    result = kproxy("explain", "4500002800014000400600000a0000090a000001c3512384000003e80000000050020200 00000000")
    assert result.returncode == 2
    assert result.stderr == "kproxy: these packets have no TCP payload: nothing to decode\n"


def test_reports_truncated_frames(kproxy: Run) -> None:
    result = kproxy("explain", METADATA[6:] + METADATA + METADATA[:41])
    assert result.returncode == 1
    assert "the first 20 bytes belong to an earlier frame: skipped" in result.stderr
    assert "the last frame is cut off: 10 of 18 bytes follow its length prefix" in result.stderr
    assert result.stdout.count("Metadata v0 request") == 2


def test_explains_a_response_given_its_request_or_its_api(kproxy: Run) -> None:
    response_hex = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132}).hex()
    request_hex = request("FindCoordinator", 0, {"key": "g"}).hex()
    for options in (
        ["--request", request_hex],
        ["--api", "findcoordinator", "--version", "0"],
        ["--api", "10", "--version", 0],
    ):
        result = kproxy("explain", *options, response_hex)
        assert result.returncode == 0, result.stderr
        assert "FindCoordinator v0 response" in result.stdout
        assert '"127.0.0.1"' in result.stdout


def test_suggests_options_for_a_response_without_its_request(kproxy: Run) -> None:
    frame = response(
        "SaslHandshake", 1, {"error_code": 33, "mechanisms": ["PLAIN", "SCRAM-SHA-256"]}, correlation_id=-2
    )
    result = kproxy("explain", frame.hex())
    assert result.returncode == 2
    assert "--api SaslHandshake --version 1" in result.stderr


def test_shows_bytes_that_belong_to_no_field(kproxy: Run) -> None:
    frame = with_length_prefix(request("Metadata", 0, {"topics": [{"name": "a"}]})[4:] + b"\xab\xcd")
    result = kproxy("explain", frame.hex())
    assert result.returncode == 1
    assert any("ab cd" in row and "(not decoded)" in row for row in result.stdout.splitlines())
    assert "L001 trailing-bytes" in result.stdout


def test_hides_secrets(kproxy: Run) -> None:
    frame = request("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0hunter2"})
    for options in ([], ["--json"]):
        result = kproxy("explain", *options, frame.hex())
        assert b"hunter2".hex() not in result.stdout.replace(" ", "")
        assert "hunter2" not in result.stdout
        assert "redacted" in result.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["zz"], "'z' is not a hex digit"),
        (["-"], "no bytes given"),
        (["--api", "Metadta", "--version", "0", "00"], "unknown API 'Metadta'; did you mean Metadata"),
        (["--api", "Metadata", "00"], "--api Metadata needs --version N, 0 to 13"),
        (["--version", "0", "00"], "--version needs --api NAME"),
        (["--api", "Metadata", "--request", "00", "00"], "use --request or --api, not both"),
    ],
)
def test_invalid_input_prints_one_sentence_and_exits_with_2(kproxy: Run, args: list[str], message: str) -> None:
    result = kproxy("explain", *args)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_reads_and_writes_json_lines(kproxy: Run) -> None:
    frame = response("Metadata", 0, {"topics": [{"name": "a", "error_code": 3}]})
    lines = [
        {"id": 1, "frame": METADATA.replace(" ", "")},
        {"id": "b", "frame": frame.hex(), "request": METADATA.replace(" ", "")},
        {"id": 3, "frame": frame.hex(), "type": "response", "api_key": 3, "version": 0},
        {"id": 4, "frame": frame[:-1].hex(), "type": "response", "api_key": 3, "version": 0},
        {"id": 5, "frame": "xyz"},
        {"id": 6, "frame": frame.hex(), "type": "response"},
    ]
    result = kproxy("explain", "--json", "-", stdin="\n".join(map(json.dumps, lines)))
    assert result.returncode == 2
    one, two, three, four, five, six = map(json.loads, result.stdout.splitlines())
    assert one == {
        "id": 1, "api": "Metadata", "api_version": 0, "type": "request",
        "header": {"request_api_key": 3, "request_api_version": 0, "correlation_id": 1, "client_id": "test"},
        "body": {"topics": []}, "fields": one["fields"], "findings": [],
    }  # fmt: skip
    assert [(row["path"], row["span"]) for row in one["fields"]][-2:] == [
        ("header.client_id", [12, 18]),
        ("topics", [18, 22]),
    ]
    assert two["id"] == "b"
    assert {**two, "id": 3} == three
    assert two["body"]["topics"][0]["error_code"] == 3
    assert four["error"]["offset"] == len(frame) - 4
    assert four["findings"][0]["code"] == "L002"
    assert five["error"]["message"].startswith("invalid line, expected")
    assert "request" in six["error"]["message"]


def test_rows_are_contiguous(kproxy: Run) -> None:
    frame = response("Metadata", 12, {"brokers": [{"node_id": 1, "host": "h", "port": 9}], "topics": [{"name": "a"}]})
    result = kproxy("explain", "--json", "--api", "Metadata", "--version", 12, frame.hex())
    spans = [row["span"] for row in json.loads(result.stdout)["fields"]]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(frame)
    assert all(span[1] == next_span[0] for span, next_span in itertools.pairwise(spans))


def test_shows_compressed_records_as_bytes_and_then_field_by_field(kproxy: Run) -> None:
    records = [{"offset": n, "timestamp": 5, "key": b"k%d" % n, "value": b"x" * 100, "headers": []} for n in range(3)]
    batch = encode([{"magic": 2, "base_offset": 0, "compression": "gzip", "records": records}])
    body = {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]}
    frame = request("Produce", 9, body)
    result = kproxy("explain", frame.hex())
    assert result.returncode == 0, result.stdout
    shown_bytes = bytes.fromhex("".join(row[12:36] for row in result.stdout.splitlines()[1:]).replace(" ", ""))
    assert shown_bytes == frame
    assert any(row.split()[-4:] == ["topic_data[0].partition_data[0].records[0].records[2].key", '"k2"', "(2", "bytes)"]
               for row in result.stdout.splitlines())  # fmt: skip


def test_uncertain_diagnosis_is_not_shown_as_a_heading(kproxy: Run) -> None:
    frame_hex = "0000001e000300090000000100066b70726f7879000102076f72646572730000 0000".replace(" ", "")
    result = kproxy("explain", frame_hex)
    assert "(33% sure)" in result.stdout
    assert "decoded as actually written" not in result.stdout


def test_packets_from_a_server_are_not_mistaken_for_a_request(kproxy: Run) -> None:
    frame = response("Metadata", 4, {"brokers": [{"node_id": 1, "host": "b1", "port": 9092}]})
    packet = ipv4(tcp(9092, 50001, 1, frame), source=b"\x0a\0\0\1", destination=b"\x0a\0\0\2").hex()
    result = kproxy("explain", packet)
    assert (result.returncode, result.stdout) == (2, "")
    assert "these bytes went from 10.0.0.1:9092 to 10.0.0.2:50001: a response" in result.stderr
    explained = kproxy("explain", "--api", "Metadata", "--version", "4", packet)
    assert explained.returncode == 0, explained.stderr
    assert f"Metadata v4 response, {len(frame)} bytes" in explained.stdout
