"""`kproxy dissect --findings`, and what `--select`, `--ignore` and `--fail-on` do in each command."""

import gzip
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kproxy.inspection.inspector import Inspector
from kproxy.trace.encoding import append_line
from kproxy.trace.lines import (
    CloseLine,
    Detail,
    ExcerptEntry,
    FindingEntry,
    Line,
    OpenLine,
    RepeatEntry,
    RequestLine,
    ResponseLine,
)
from tests.kproxy.cli.conftest import Run
from tests.kproxy.frames import request, with_length_prefix
from tests.kproxy.stories import StoryPlayer

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "pcap"
CAPTURE = ROOT / "captures" / "librdkafka-metadata-three-bytes-too-many.pcap.gz"
#: A request with two bytes that belong to no field, which is a finding of the layout family.
TRAILING = with_length_prefix(request("Metadata", 0, {"topics": [{"name": "a"}]})[4:] + b"\xab\xcd")


def finding_entries(code: str, name: str, **fields: object) -> list[FindingEntry]:
    return [FindingEntry(code, name, "error", "a sentence", **fields)]  # type: ignore[arg-type]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A trace with L001 three times on two connections, and C001."""
    common_fields = {"v": 1, "ts": "2026-11-21T03:41:00.123456Z", "client": "10.0.0.1:5", "server": "10.0.0.2:9092"}
    frame_fields = {"size": 40, "offset": 0, "api": "Metadata", "api_version": 0}
    trailing = finding_entries("L001", "trailing-bytes", span=(35, 38), excerpt=ExcerptEntry(32, "00000061abcd"))
    lines: list[Line] = [
        OpenLine(**common_fields, connection_id="t-1"),
        OpenLine(**common_fields, connection_id="t-2"),
        RequestLine(**common_fields, **frame_fields, connection_id="t-1", findings=trailing),
        RequestLine(**common_fields, **frame_fields, connection_id="t-2", findings=trailing),
        ResponseLine(
            **common_fields,
            connection_id="t-1",
            size=10,
            offset=9,
            findings=finding_entries("C001", "response-without-request"),
        ),
        CloseLine(**common_fields, connection_id="t-2", repeated=[RepeatEntry("L001", "trailing-bytes", 1)]),
    ]
    encoded = bytearray()
    for line in lines:
        append_line(line, encoded)
    path = tmp_path / "story.jsonl"
    path.write_bytes(encoded)
    return path


def test_every_cause_is_reported_once_with_its_bytes_and_count(kproxy: Run, trace: Path) -> None:
    result = kproxy("dissect", "--findings", "--select", "L001,C001", trace)
    assert result.returncode == 1
    blocks = result.stdout.split("\n\n")
    assert [block.splitlines()[0].split(": ")[1] for block in blocks[:-1]] == [
        "L001 trailing-bytes",
        "C001 response-without-request",
    ]
    assert "    32 0020 | 00 00 00 61 ab cd | ...a..\n            |          ^^^^^^^^\n" in blocks[0]
    assert blocks[0].endswith("= seen: 3 times on 2 connections")
    assert f"--> {trace}: connection t-1 (10.0.0.1:5 -> 10.0.0.2:9092)" in blocks[0]
    assert blocks[-1] == "2 errors\nanalysed: 1 file, 2 connections, 3 frames\n"


def test_shows_the_bytes_of_a_capture_at_any_detail(kproxy: Run) -> None:
    result = kproxy("dissect", "--findings", "--select", "L", CAPTURE)
    assert result.returncode == 1
    assert "    16 0010 | 62 2d 63 6f 6e 66 6c 75  65 6e 74 00 00 00 00 00 | b-confluent....." in result.stdout
    assert (
        "Metadata v13 request, correlation id 3, byte 106 of the stream, 2026-11-21T01:57:42.244494Z" in result.stdout
    )


def test_findings_are_written_as_json_sarif_and_junit(kproxy: Run, trace: Path) -> None:
    select = ("--select", "L001,C001")
    parsed = json.loads(kproxy("dissect", "--findings", "--json", *select, trace).stdout)
    assert [(finding["code"], finding["count"], finding["connections"]) for finding in parsed] == [
        ("L001", 3, 2),
        ("C001", 1, 1),
    ]
    assert parsed == json.loads(kproxy("dissect", "--findings", "--format", "json", *select, trace).stdout)
    log = json.loads(kproxy("dissect", "--findings", "--format", "sarif", *select, trace).stdout)
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["L001", "C001"]
    [suite] = ElementTree.fromstring(kproxy("dissect", "--findings", "--format", "junit", *select, trace).stdout)
    assert [case.attrib["name"][:4] for case in suite if case.find("failure") is not None] == ["C001", "L001"]


def test_filter_applies_to_findings(kproxy: Run, trace: Path) -> None:
    parsed = json.loads(kproxy("dissect", "--findings", "--json", "-f", "api=Metadata", trace).stdout)
    assert {finding["where"]["api"] for finding in parsed} == {"Metadata"}


def test_absence_of_findings_is_reported_with_status_0(kproxy: Run, trace: Path) -> None:
    result = kproxy("dissect", "--findings", "--select", "X", trace)
    assert (result.returncode, result.stdout) == (0, "no findings\nanalysed: 1 file, 2 connections, 3 frames\n")


@pytest.mark.parametrize("findings", [[], ["--findings"]])
@pytest.mark.parametrize(
    ("options", "status"),
    [
        ([], 1),
        (["--fail-on", "error"], 1),
        (["--fail-on", "never"], 0),
        (["--ignore", "L,C", "--ignore", "S,M,V"], 0),
        (["--select", "X"], 0),
    ],
)
def test_exit_status_depends_on_the_findings_shown(
    kproxy: Run, trace: Path, findings: list[str], options: list[str], status: int
) -> None:
    result = kproxy("dissect", *findings, *options, trace)
    assert result.returncode == status
    assert ("L001" in result.stdout) == ("--ignore" not in options and "--select" not in options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--format", "sarif"], "--format sarif needs --findings"),
        (["--findings", "--json", "--format", "junit"], "use --json or --format junit, not both"),
        (["--findings", "--fields", "api"], "use --findings or --fields, not both"),
        (["--select", "Q1"], "--select Q1: unknown rule"),
        (["--fail-on", "often"], "argument --fail-on: invalid choice: 'often'"),
    ],
)
def test_invalid_usage_prints_one_sentence_and_exits_with_2(
    kproxy: Run, trace: Path, options: list[str], message: str
) -> None:
    result = kproxy("dissect", *options, trace)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.fixture
def inputs_without_kafka(tmp_path: Path) -> dict[str, Path]:
    """Inputs without any Kafka traffic."""
    pcap = gzip.decompress((DATA / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())
    empty_capture = tmp_path / "empty.pcap"
    empty_capture.write_bytes(pcap[:24])
    idle_trace = tmp_path / "idle.jsonl"
    idle_trace.write_text(
        '{"kind":"open","v":1,"ts":"2026-11-21T03:41:00.123456Z","connection_id":"a-1","client":"a:1","server":"b:2"}\n'
    )
    return {"empty": empty_capture, "tls": DATA / "tls-java-nokeys-4.3.1.pcap.gz", "idle": idle_trace}


@pytest.mark.parametrize("input_name", ["empty", "tls", "idle"])
@pytest.mark.parametrize(
    "output_options",
    [
        [], ["--json"], ["--fields", "api"], ["--html"], ["--findings"], ["--findings", "--json"],
        ["--findings", "--format", "sarif"], ["--findings", "--format", "junit"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_input_without_kafka_is_reported_with_status_5(
    kproxy: Run, inputs_without_kafka: dict[str, Path], input_name: str, output_options: list[str]
) -> None:
    result = kproxy("dissect", *output_options, "--fail-on", "info", inputs_without_kafka[input_name])
    assert result.returncode == 5
    assert "nothing was analysed: no Kafka frame was found (1 file, " in (result.stdout + result.stderr)
    assert "no findings" not in result.stdout
    if "sarif" in output_options:
        [run] = json.loads(result.stdout)["runs"]
        assert run["properties"]["analysed"]["frames"] == 0
        assert run["invocations"][0]["toolExecutionNotifications"][-1]["level"] == "warning"
    elif "junit" in output_options:
        assert ElementTree.fromstring(result.stdout)[0].attrib["errors"] == "1"
    elif output_options == ["--findings", "--json"]:
        assert json.loads(result.stdout) == []


def test_reports_how_much_was_analysed(kproxy: Run, inputs_without_kafka: dict[str, Path]) -> None:
    files = inputs_without_kafka["empty"], DATA / "sasl-plain-kafka-python-4.3.1.pcap.gz"
    result = kproxy("dissect", "--findings", "--select", "L", *files)
    assert (result.returncode, result.stdout.splitlines()) == (
        0,
        ["no findings", "analysed: 2 files, 113 packets, 6 connections, 62 frames"],
    )
    result = kproxy("dissect", "--findings", "--json", "--select", "L", "-f", "api=Fetch", *files)
    assert (result.returncode, json.loads(result.stdout)) == (0, [])
    assert result.stderr.endswith("kproxy: analysed: 2 files, 113 packets, 6 connections, 62 frames\n")


def test_finding_takes_precedence_over_nothing_analysed(kproxy: Run, inputs_without_kafka: dict[str, Path]) -> None:
    tls = "--port", "21295", inputs_without_kafka["tls"]
    assert kproxy("dissect", "--findings", *tls).returncode == 1  # TLS where Kafka should be
    assert kproxy("dissect", "--findings", "--ignore", "X", *tls).returncode == 5


def test_unreadable_input_exits_with_2_and_prints_no_report(kproxy: Run, tmp_path: Path) -> None:
    result = kproxy("dissect", "--findings", "--format", "sarif", "--fail-on", "never", tmp_path / "none.pcap")
    assert (result.returncode, result.stdout) == (2, "")


def test_explain_shows_the_bytes_of_a_finding_and_marks_its_row(kproxy: Run) -> None:
    result = kproxy("explain", "--select", "L", TRAILING.hex())
    assert result.returncode == 1
    table, _, finding = result.stdout.partition("\n\n")
    assert any(row.split()[-2:] == ["<-", finding[7:11]] for row in table.splitlines())
    assert finding.startswith("error: L")
    assert "^^" in finding


def test_explain_json_has_every_key_of_a_finding(kproxy: Run) -> None:
    explanation = json.loads(kproxy("explain", "--json", "--select", "L", TRAILING.hex()).stdout)
    keys = {"code", "name", "severity", "blame", "message", "path", "span", "hint"}
    assert explanation["findings"]
    for finding in explanation["findings"]:
        assert set(finding) - {"edit", "confidence", "also", "rivals"} == keys
        assert len(finding["span"]) == 2
        assert ("edit" in finding) == ("confidence" in finding)


def test_explain_uses_the_request_of_a_response(kproxy: Run) -> None:
    request_frame = request("FindCoordinator", 0, {"key": "g"})
    response_frame = bytes.fromhex("0000001b 00000001 0000 00000000 0009 3132372e302e302e31 0000fe6c".replace(" ", ""))
    result = kproxy("explain", "--json", "--request", request_frame.hex(), with_length_prefix(response_frame[4:]).hex())
    assert json.loads(result.stdout)["api"] == "FindCoordinator"


def test_explain_reports_the_layout_of_a_deviating_frame(kproxy: Run) -> None:
    frame = bytes.fromhex("0000001f 00000001 00000000 0000 ffff 00000000 0009 3132372e302e302e31 0000fe6c")
    result = kproxy("explain", "--api", "FindCoordinator", "--version", "0", with_length_prefix(frame[4:]).hex())
    assert result.returncode == 1
    assert result.stdout.splitlines()[1].startswith("decoded as actually written: ")
    assert "            = edit: " in result.stdout


def test_explain_applies_ignore_and_fail_on(kproxy: Run) -> None:
    result = kproxy("explain", "--ignore", "L", TRAILING.hex())
    assert "error: L" not in result.stdout
    assert result.returncode == 0
    assert kproxy("explain", "--fail-on", "never", TRAILING.hex()).returncode == 0
    # an unreadable frame is an error, whatever rules are selected
    assert kproxy("explain", "--select", "X", TRAILING[:10].hex()).returncode != 0


def test_secrets_are_zeroed_in_the_bytes_of_a_finding(kproxy: Run) -> None:
    frame = with_length_prefix(request("SaslAuthenticate", 0, {"auth_bytes": b"\0alice\0hunter2"})[4:] + b"\xab\xcd")
    for options in ([], ["--json"]):
        output = kproxy("explain", "--select", "L", *options, frame.hex()).stdout
        assert "SaslAuthenticate" in output
        assert "hunter2" not in output
        assert b"hunter2".hex() not in output.replace(" ", "")


def test_secrets_next_to_a_finding_are_zeroed() -> None:
    frame = request("SaslAuthenticate", 0, {"auth_bytes": b"\0alice\0hunter2"}, client_id="app")
    frame = frame.replace(b"app", b"ap\xff")  # not UTF-8, which is a finding, and the token follows immediately
    player = StoryPlayer(Inspector("story", excerpts=True))
    player.play(f"> hex {frame.hex()}")
    entries = [finding for line in player.lines for finding in getattr(line, "findings", ())]
    [excerpt] = [finding_entry.excerpt for finding_entry in entries if finding_entry.code == "L023"]
    assert excerpt is not None
    assert bytes.fromhex(excerpt.hex) == frame.replace(b"\0alice\0hunter2", bytes(14))


def test_trace_has_excerpts_at_full_detail_except_for_undecoded_frames() -> None:
    def excerpts(detail: Detail, frame: bytes) -> list[object]:
        player = StoryPlayer(Inspector("story", detail))
        player.play(f"> Metadata v0 {{}}\n> hex {frame.hex()}")
        return [finding.excerpt for line in player.lines if isinstance(line, RequestLine) for finding in line.findings]

    assert any(excerpts(Detail.FULL, TRAILING))
    assert not any(excerpts(Detail.SUMMARY, TRAILING))
    unknown_frame = with_length_prefix(
        b"\x00\x75\x73\x65\x72\x00\x70\x61\x73\x73\x77\x6f\x72\x64"
    )  # "user", a NUL, "password"
    assert excerpts(Detail.FULL, unknown_frame)
    assert not any(excerpts(Detail.FULL, unknown_frame))


def test_unmatched_response_shows_its_header() -> None:
    player = StoryPlayer(Inspector("story", excerpts=True))
    player.play("< #99 as ApiVersions v0 {}")
    [entry] = [finding for line in player.lines for finding in getattr(line, "findings", ()) if finding.code == "C001"]
    assert entry.span == (4, 8)
    assert entry.excerpt is not None
    assert entry.excerpt.hex == "0000000a00000063"


def test_shows_the_bytes_of_a_bug_in_real_traffic(kproxy: Run) -> None:
    capture = ROOT / "tests" / "data" / "bugs" / "metadata-throttle-first--java.pcap.gz"
    result = kproxy("dissect", "--findings", "--select", "L", capture)
    assert "     0 0000 | 00 00 00 54 00 00 00 02  00 00 00 00 00 00 00 01 | ...T............" in result.stdout
    [finding, *_] = json.loads(kproxy("dissect", "--findings", "--json", "--select", "L", capture).stdout)
    assert finding["span"] == [8, 12]
    assert set(finding["edit"]) >= {"kind", "field", "detail"}
    assert (finding["count"], finding["connections"]) == (2, 2)
