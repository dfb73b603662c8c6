"""`kproxy explain`: frames as people paste them."""

import itertools
import json
from pathlib import Path

import pytest

from dissectors.records import encode
from tests.kproxy.capture.packets import ipv4, tcp
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import framed, request, response

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
def test_a_request_typed_for_nc_is_named_byte_by_byte(kproxy: Run, pasted: str) -> None:
    done = kproxy("explain", "-", stdin=pasted)
    assert done.returncode == 0, done.stderr
    title, *rows = done.stdout.splitlines()
    assert title == "Metadata v0 request, 22 bytes"
    for row, (hex_bytes, path, value) in zip(rows, EXPECTED, strict=True):
        assert hex_bytes in row
        assert f" {path} " in row
        assert value in row


def test_hex_may_stand_on_the_command_line_in_pieces(kproxy: Run) -> None:
    assert kproxy("explain", *METADATA.split()).returncode == 0


def test_a_wrong_length_prefix_is_said_with_the_right_one(kproxy: Run) -> None:
    done = kproxy("explain", METADATA.replace("12", "22", 1))
    assert done.returncode == 1
    assert "the length prefix is 34, but 18 bytes follow it; the correct prefix is 00 00 00 12" in done.stderr
    assert "Metadata v0 request" in done.stdout


def test_a_request_without_its_prefix_is_read_and_said(kproxy: Run) -> None:
    done = kproxy("explain", METADATA[12:])
    assert done.stderr == f"note: {MISSING}\n"
    assert done.returncode == 0
    title, key, *_ = done.stdout.splitlines()
    assert title == "Metadata v0 request, 18 bytes"
    assert key.split()[:4] == ["0", "0000", "00", "03"]


#: As it stands in a gateway's log.
LOGGED = "0000000100000000000000093132372e302e302e310000fe6c"


def test_a_response_without_its_prefix_is_read_and_said(kproxy: Run) -> None:
    asked = request("FindCoordinator", 0, {"key": "g"}).hex()
    for options in (["--api", "FindCoordinator", "--version", "0"], ["--request", asked], ["--request", asked[8:]]):
        done = kproxy("explain", *options, LOGGED)
        assert (done.returncode, done.stderr) == (0, f"note: {MISSING}\n")
        title, correlation_id, *_, port = done.stdout.splitlines()
        assert title == "FindCoordinator v0 response, 25 bytes"
        assert correlation_id.split()[:3] == ["0", "0000", "00"]
        assert port.split() == ["21", "0015", "00", "00", "fe", "6c", "port", "65132"]


def test_without_its_api_it_says_which_would_do(kproxy: Run) -> None:
    done = kproxy("explain", LOGGED)
    assert done.returncode == 2
    note, sentence = done.stderr.splitlines()
    assert note == f"note: {MISSING}"
    assert sentence.endswith("pass --request HEX, or --api FindCoordinator --version 0")


def test_json_says_that_the_prefix_is_missing_and_counts_without_it(kproxy: Run) -> None:
    done = kproxy("explain", "--json", "--api", "FindCoordinator", "--version", "0", LOGGED)
    line = {"frame": LOGGED, "type": "response", "api_key": 10, "version": 0}
    whole = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132}).hex()
    lines = json.dumps(line) + "\n" + json.dumps(line | {"frame": whole})
    from_lines = kproxy("explain", "--json", "-", stdin=lines)
    assert (done.returncode, from_lines.returncode) == (0, 0)
    missing, with_prefix = map(json.loads, from_lines.stdout.splitlines())
    assert json.loads(done.stdout) == missing
    assert missing["length_prefix"] == "missing"
    assert "length_prefix" not in with_prefix
    size, *fields = with_prefix["fields"]
    assert (size["path"], size["span"]) == ("size", [0, 4])
    assert missing["fields"] == [field | {"span": [field["span"][0] - 4, field["span"][1] - 4]} for field in fields]


def test_findings_of_a_frame_without_its_prefix_point_into_what_was_given(kproxy: Run) -> None:
    frame = response("Metadata", 1, {"topics": [{"name": "a", "is_internal": True, "partitions": []}]})[4:]
    odd = frame.replace(b"\x01a\x01", b"\x01a\x02")  # a boolean that is neither 0 nor 1
    done = kproxy("explain", "--json", "--select", "L", "--api", "Metadata", "--version", "1", odd.hex())
    made = json.loads(done.stdout)
    assert made["length_prefix"] == "missing"
    [finding] = made["findings"]
    assert odd[slice(*finding["span"])] == b"\x02"


@pytest.mark.parametrize("given", ["00", "00 00 00 01", "00 00 00 03 00 00 00"])
@pytest.mark.parametrize("options", [[], ["--api", "Metadata", "--version", "0"]])
def test_too_few_bytes_for_a_frame_are_one_sentence(kproxy: Run, given: str, options: list[str]) -> None:
    done = kproxy("explain", *options, given)
    count = len(bytes.fromhex(given))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"kproxy: too short for a frame: {count} byte{'s' * (count != 1)} given, "
        "but the length prefix and the shortest header take 8\n"
    )


def test_several_frames_are_explained_one_after_the_other(kproxy: Run) -> None:
    done = kproxy("explain", METADATA + METADATA)
    assert done.returncode == 0
    assert done.stdout.count("Metadata v0 request") == 2


@pytest.mark.parametrize(("name", "exchanges"), [("tcpdump-X.txt", 2), ("tshark-follow.txt", 1)])
def test_both_directions_are_paired(kproxy: Run, name: str, exchanges: int) -> None:
    done = kproxy("explain", "-", stdin=(PASTED / name).read_text())
    assert done.returncode == 1, done.stderr
    titles = [line for line in done.stdout.splitlines() if line.endswith(" bytes") and line.startswith("Find")]
    assert titles == ["FindCoordinator v0 request, 26 bytes", "FindCoordinator v0 response, 35 bytes"] * exchanges
    assert done.stdout.count("L006 body-version-mismatch") == exchanges


def test_one_bad_frame_of_several_does_not_end_the_others(kproxy: Run) -> None:
    lone = response("SaslHandshake", 1, {"error_code": 33, "mechanisms": ["PLAIN"]}, correlation_id=-2)
    done = kproxy("explain", "-", stdin=f"{list(lone)}\n{list(bytes.fromhex(METADATA))}\n")
    assert done.returncode == 2
    assert "Metadata v0 request" in done.stdout
    assert "frame 2: this is not a request, and a response does not name its API" in done.stderr


def test_packets_without_payload_are_one_sentence(kproxy: Run) -> None:
    done = kproxy("explain", "4500002800014000400600000a0000090a000001c3512384000003e80000000050020200 00000000")
    assert done.returncode == 2
    assert done.stderr == "kproxy: these packets have no TCP payload: nothing to decode\n"


def test_cut_frames_are_reported(kproxy: Run) -> None:
    done = kproxy("explain", METADATA[6:] + METADATA + METADATA[:41])
    assert done.returncode == 1
    assert "the first 20 bytes belong to an earlier frame: skipped" in done.stderr
    assert "the last frame is cut off: 10 of 18 bytes follow its length prefix" in done.stderr
    assert done.stdout.count("Metadata v0 request") == 2


def test_a_response_is_read_by_its_request_or_by_name(kproxy: Run) -> None:
    answer = response("FindCoordinator", 0, {"host": "127.0.0.1", "port": 65132}).hex()
    asked = request("FindCoordinator", 0, {"key": "g"}).hex()
    for options in (
        ["--request", asked],
        ["--api", "findcoordinator", "--version", "0"],
        ["--api", "10", "--version", 0],
    ):
        done = kproxy("explain", *options, answer)
        assert done.returncode == 0, done.stderr
        assert "FindCoordinator v0 response" in done.stdout
        assert '"127.0.0.1"' in done.stdout


def test_a_lone_response_names_what_it_could_be(kproxy: Run) -> None:
    frame = response(
        "SaslHandshake", 1, {"error_code": 33, "mechanisms": ["PLAIN", "SCRAM-SHA-256"]}, correlation_id=-2
    )
    done = kproxy("explain", frame.hex())
    assert done.returncode == 2
    assert "--api SaslHandshake --version 1" in done.stderr


def test_bytes_that_no_field_takes_are_shown_and_named(kproxy: Run) -> None:
    frame = framed(request("Metadata", 0, {"topics": [{"name": "a"}]})[4:] + b"\xab\xcd")
    done = kproxy("explain", frame.hex())
    assert done.returncode == 1
    assert any("ab cd" in row and "(not decoded)" in row for row in done.stdout.splitlines())
    assert "L001 trailing-bytes" in done.stdout


def test_secrets_are_not_shown(kproxy: Run) -> None:
    frame = request("SaslAuthenticate", 2, {"auth_bytes": b"\0alice\0hunter2"})
    for options in ([], ["--json"]):
        done = kproxy("explain", *options, frame.hex())
        assert b"hunter2".hex() not in done.stdout.replace(" ", "")
        assert "hunter2" not in done.stdout
        assert "redacted" in done.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["zz"], "'z' is not a hex digit"),
        (["-"], "no bytes given"),
        (["--api", "Metadta", "--version", "0", "00"], "unknown API 'Metadta'; did you mean Metadata"),
        (["--api", "Metadata", "00"], "--api Metadata needs --version N, 0 to 13"),
        (["--version", "0", "00"], "--version needs --api NAME"),
        (["--api", "Metadata", "--request", "00", "00"], "use --request or --api, not both"),
    ],
)
def test_wrong_input_is_one_sentence_and_status_2(kproxy: Run, args: list[str], said: str) -> None:
    done = kproxy("explain", *args)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_json_lines_in_and_out(kproxy: Run) -> None:
    answer = response("Metadata", 0, {"topics": [{"name": "a", "error_code": 3}]})
    lines = [
        {"id": 1, "frame": METADATA.replace(" ", "")},
        {"id": "b", "frame": answer.hex(), "request": METADATA.replace(" ", "")},
        {"id": 3, "frame": answer.hex(), "type": "response", "api_key": 3, "version": 0},
        {"id": 4, "frame": answer[:-1].hex(), "type": "response", "api_key": 3, "version": 0},
        {"id": 5, "frame": "xyz"},
        {"id": 6, "frame": answer.hex(), "type": "response"},
    ]
    done = kproxy("explain", "--json", "-", stdin="\n".join(map(json.dumps, lines)))
    assert done.returncode == 2
    one, two, three, four, five, six = map(json.loads, done.stdout.splitlines())
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
    assert four["error"]["offset"] == len(answer) - 4
    assert four["findings"][0]["code"] == "L002"
    assert five["error"]["message"].startswith("invalid line, expected")
    assert "request" in six["error"]["message"]


def test_rows_follow_each_other_without_a_gap(kproxy: Run) -> None:
    frame = response("Metadata", 12, {"brokers": [{"node_id": 1, "host": "h", "port": 9}], "topics": [{"name": "a"}]})
    done = kproxy("explain", "--json", "--api", "Metadata", "--version", 12, frame.hex())
    spans = [row["span"] for row in json.loads(done.stdout)["fields"]]
    assert spans[0][0] == 0
    assert spans[-1][1] == len(frame)
    assert all(before[1] == after[0] for before, after in itertools.pairwise(spans))


def test_compressed_records_stand_once_as_bytes_and_then_field_by_field(kproxy: Run) -> None:
    records = [{"offset": n, "timestamp": 5, "key": b"k%d" % n, "value": b"x" * 100, "headers": []} for n in range(3)]
    batch = encode([{"magic": 2, "base_offset": 0, "compression": "gzip", "records": records}])
    body = {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 0, "records": batch}]}]}
    frame = request("Produce", 9, body)
    done = kproxy("explain", frame.hex())
    assert done.returncode == 0, done.stdout
    shown = bytes.fromhex("".join(row[12:36] for row in done.stdout.splitlines()[1:]).replace(" ", ""))
    assert shown == frame
    assert any(row.split()[-4:] == ["topic_data[0].partition_data[0].records[0].records[2].key", '"k2"', "(2", "bytes)"]
               for row in done.stdout.splitlines())  # fmt: skip


def test_a_doubtful_diagnosis_is_no_heading(kproxy: Run) -> None:
    moved = "0000001e000300090000000100066b70726f7879000102076f72646572730000 0000".replace(" ", "")
    done = kproxy("explain", moved)
    assert "(33% sure)" in done.stdout
    assert "decoded as actually written" not in done.stdout


def test_packets_of_a_server_alone_are_not_taken_for_a_request(kproxy: Run) -> None:
    answer = response("Metadata", 4, {"brokers": [{"node_id": 1, "host": "b1", "port": 9092}]})
    packet = ipv4(tcp(9092, 50001, 1, answer), source=b"\x0a\0\0\1", destination=b"\x0a\0\0\2").hex()
    done = kproxy("explain", packet)
    assert (done.returncode, done.stdout) == (2, "")
    assert "these bytes went from 10.0.0.1:9092 to 10.0.0.2:50001: a response" in done.stderr
    told = kproxy("explain", "--api", "Metadata", "--version", "4", packet)
    assert told.returncode == 0, told.stderr
    assert f"Metadata v4 response, {len(answer)} bytes" in told.stdout
