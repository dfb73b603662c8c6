"""`kproxy dissect` with every capture of real clients, and with invalid input."""

import fcntl
import gzip
import json
import re
import subprocess
import sys
import termios
import time
from pathlib import Path

import jsonschema
import pytest
import zstandard

from kproxy.trace.encoding import json_schema
from tests.kproxy.capture.packets import RST_ACK, SYN, pcap, tcp_packet
from tests.kproxy.cli.conftest import Run
from tests.kproxy.test_right_traffic import CORRECT_FINDINGS

CAPTURES = Path(__file__).parents[2] / "data" / "pcap"
PLAIN = sorted(path.name for path in CAPTURES.glob("*.pcap.gz") if "tls" not in path.name and "ssl" not in path.name)


def parse_lines(text: str) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", PLAIN)
def test_decodes_every_frame_of_real_clients_completely(kproxy: Run, name: str) -> None:
    result = kproxy("dissect", "--json", "--detail", "full", CAPTURES / name)
    assert result.stderr == ""
    parsed = parse_lines(result.stdout)
    frames = [line for line in parsed if line["kind"] in ("request", "response")]
    assert len(frames) > 50
    validator = jsonschema.Draft202012Validator(json_schema())
    for line in frames[:300]:
        validator.validate(line)
    for line in frames:
        assert "not_decoded" not in line, line
        assert "body" in line
        assert line["kind"] == "request" or line["latency_us"] >= 0
    findings = [finding for line in frames for finding in line.get("findings", ()) if finding["severity"] != "info"]
    assert {(name.removesuffix(".pcap.gz"), finding["code"]) for finding in findings} <= CORRECT_FINDINGS.keys()
    separate_findings = [line for line in parsed if line["kind"] == "finding" and line["severity"] != "info"]
    assert {(name.removesuffix(".pcap.gz"), line["code"]) for line in separate_findings} <= CORRECT_FINDINGS.keys()
    assert result.returncode == any(finding["severity"] == "error" for finding in findings + separate_findings)
    midstream_ids = {line["connection_id"] for line in parsed if line["kind"] == "open" and line.get("midstream")}
    assert all(line["connection_id"] in midstream_ids for line in parsed if line["kind"] == "gap")


@pytest.mark.parametrize("name", ["tls-kafka-python-4.3.1", "sasl_ssl-scram512-kafka-python-4.3.1"])
def test_tls_is_reported_and_decrypted_with_its_key_log(kproxy: Run, name: str) -> None:
    encrypted = kproxy("dissect", CAPTURES / f"{name}.pcap.gz")
    assert encrypted.returncode == 5
    assert "6 TLS" in encrypted.stderr
    assert "--keylog" in encrypted.stderr
    result = kproxy("dissect", "--json", "--keylog", CAPTURES / f"{name}.keys", CAPTURES / f"{name}.pcap.gz")
    parsed = parse_lines(result.stdout)
    assert {line.get("tls") for line in parsed if line["kind"] == "open"} == {True}
    frames = [line for line in parsed if line["kind"] in ("request", "response")]
    assert len(frames) > 30
    assert all("not_decoded" not in line for line in frames)
    assert all(finding["severity"] == "info" for line in frames for finding in line.get("findings", ()))


def test_tls_on_the_given_port_is_a_finding(kproxy: Run) -> None:
    result = kproxy("dissect", "--port", "21295", CAPTURES / "tls-java-nokeys-4.3.1.pcap.gz")
    assert result.returncode == 1
    assert "X001 tls-to-plaintext" in result.stdout


def test_text_output_has_a_row_per_frame(kproxy: Run) -> None:
    result = kproxy("dissect", "--ignore", "K", CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz")
    assert " > ApiVersions v4 " in result.stdout
    assert " < CreateTopics v7 " in result.stdout
    assert "secret" not in result.stdout


def test_no_output_contains_a_secret(kproxy: Run) -> None:
    capture = CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz"
    for options in (["-v"], ["--json", "--detail", "full"], ["--json", "--detail", "raw"]):
        out = kproxy("dissect", *options, capture).stdout
        assert "(redacted" in out
        assert "AGFsaWNlAHNlY3JldA" not in out  # base64 of \0alice\0secret
        assert "\0alice\0secret" not in out


def test_filter_and_fields_select_rows_and_columns(kproxy: Run) -> None:
    capture = CAPTURES / "java-4.3.1.pcap.gz"
    result = kproxy("dissect", "-f", "api=Produce and kind=response", "--fields", "api,version,topic,latency", capture)
    rows = [row.split("\t") for row in result.stdout.splitlines()]
    assert rows
    assert {row[0] for row in rows} == {"Produce"}
    assert all(row[1].isdigit() and row[3].isdigit() for row in rows)
    objects = kproxy("dissect", "--json", "-f", "api=Produce", "--fields", "api,correlation_id", capture)
    assert set(parse_lines(objects.stdout)[0]) == {"api", "correlation_id"}


def test_trace_gives_the_same_output_as_its_capture(kproxy: Run, tmp_path: Path) -> None:
    capture = CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz"
    first = kproxy("dissect", "--json", capture).stdout
    directory = tmp_path / "trace" / "date=2026-11-21" / "hour=03"
    directory.mkdir(parents=True)
    (directory / "kproxy-a-1-1.jsonl").write_text(first)
    assert kproxy("dissect", "--json", tmp_path / "trace").stdout == first
    assert kproxy("dissect", tmp_path / "trace").stdout == kproxy("dissect", capture).stdout


def test_reads_standard_input_and_several_files(kproxy: Run) -> None:
    capture = CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz"
    uncompressed = gzip.decompress(capture.read_bytes())
    from_file = parse_lines(kproxy("dissect", "--json", capture).stdout)
    piped = parse_lines(kproxy("dissect", "--json", "-", stdin=uncompressed).stdout)
    assert [line["kind"] for line in piped] == [line["kind"] for line in from_file]
    ids_of_both = [line["connection_id"] for line in parse_lines(kproxy("dissect", "--json", capture, capture).stdout)]
    ids = [line["connection_id"] for line in from_file]
    assert ids_of_both[: len(ids)] == ids
    assert len(set(ids_of_both)) == 2 * len(set(ids))


def test_truncated_capture_is_read_and_reported(kproxy: Run, tmp_path: Path) -> None:
    uncompressed = gzip.decompress((CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())
    (tmp_path / "cut.pcap").write_bytes(uncompressed[: len(uncompressed) // 2])
    result = kproxy("dissect", tmp_path / "cut.pcap")
    assert result.returncode == 0
    assert " > ApiVersions v4 " in result.stdout
    assert result.stderr.startswith("kproxy: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"", "empty"),
        (b"what is this", "bytes.pcap"),
        (b'{"a": 1}\n', "is not a kproxy trace"),
        (b'{"v": 2, "kind": "x"}\n', "trace format 2"),
        (gzip.compress(b"nothing", mtime=0), "bytes.pcap"),
    ],
)
def test_invalid_input_prints_one_sentence_and_exits_with_2(
    kproxy: Run, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "bytes.pcap"
    if content is not None:
        path.write_bytes(content)
    result = kproxy("dissect", path)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.startswith("kproxy: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-f", "api="], "filter: "),
        (["--fields", "nope"], "unknown field 'nope'"),
        (["--keylog", "/nonexistent"], "/nonexistent: No such file"),
        (["--port", "x"], "invalid int value"),
    ],
)
def test_invalid_options_print_one_sentence_and_exit_with_2(kproxy: Run, options: list[str], message: str) -> None:
    result = kproxy("dissect", *options, CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz")
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_reports_a_capture_without_kafka(kproxy: Run) -> None:
    result = kproxy("dissect", "--port", "1", CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz")
    assert result.returncode == 5
    assert "no Kafka connection on port 1 in 113 packets" in result.stderr


def test_reads_all_captures_and_traces_in_a_directory(kproxy: Run, tmp_path: Path) -> None:
    capture = gzip.decompress((CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())
    for name in ("day.pcap", "day.pcap1", "notes.txt"):  # the names that tcpdump -C uses
        (tmp_path / name).write_bytes(capture)
    trace = kproxy("dissect", "--json", tmp_path / "day.pcap").stdout
    (tmp_path / "then").mkdir()
    (tmp_path / "then" / "a.jsonl").write_text(trace)
    result = kproxy("dissect", "--json", tmp_path)
    connection_ids = re.compile(r'"day(?:\.pcap1)?-\d+"')
    assert connection_ids.sub("", result.stdout) == 3 * connection_ids.sub("", trace)
    first, second = (set(re.findall(rf'"{name}-(\d+)"', result.stdout)) for name in ("day", r"day\.pcap1"))
    assert first.isdisjoint(second)
    assert (result.returncode, result.stderr) == (0, "")


def test_reads_a_compressed_trace_from_a_slow_pipe() -> None:
    trace = (Path(__file__).parents[3] / "captures" / "trace-1.jsonl").read_bytes()
    data = zstandard.compress(trace)
    command = [sys.executable, "-m", "kproxy", "dissect", "--json", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data[:20])
        while int.from_bytes(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)), sys.byteorder):
            time.sleep(0.01)  # until kproxy has read the first bytes
        process.stdin.write(data[20:])
        process.stdin.close()
        assert parse_lines(process.stdout.read().decode()) == parse_lines(trace.decode())


def test_unreadable_file_in_a_directory_is_reported_and_others_are_read(kproxy: Run, tmp_path: Path) -> None:
    capture = gzip.decompress((CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())
    (tmp_path / "a.pcap").touch()
    (tmp_path / "b.pcap.zst").write_bytes(zstandard.compress(capture))
    (tmp_path / ".c.jsonl.zst.part").touch()  # a file that is still being written
    result = kproxy("dissect", "--json", tmp_path)
    assert result.returncode == 2
    assert result.stdout == kproxy("dissect", "--json", tmp_path / "b.pcap.zst").stdout != ""
    assert result.stderr == f"kproxy: {tmp_path}/a.pcap is empty: capture again, e.g. with tcpdump -w FILE port 9092\n"


def test_reports_a_directory_without_traces(kproxy: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    result = kproxy("dissect", tmp_path / "empty")
    assert result.returncode == 2
    assert "no trace (*.jsonl) and no capture" in result.stderr


def test_reports_refused_connection_attempts(kproxy: Run, tmp_path: Path) -> None:
    path = tmp_path / "refused.pcap"
    packets = [tcp_packet(99, flags=SYN), tcp_packet(0, ack=100, flags=RST_ACK, server=True)]
    path.write_bytes(pcap(packets))
    result = kproxy("dissect", path)
    assert f"{path}: no Kafka connection in 2 packets" in result.stderr
    assert "1 connection was attempted but never established: 10.0.0.1:9092 refused (1)" in result.stderr
    result = kproxy("dissect", "--findings", path)
    assert result.returncode == 5


def test_bare_word_filter_searches_text_in_bodies(kproxy: Run) -> None:
    capture = Path(__file__).parents[3] / "captures" / "join-group-never-synced.pcap.gz"
    result = kproxy("dissect", "-f", "range and not nothing-of-that", capture)
    assert [row[20:34] for row in result.stdout.splitlines()] == ["> JoinGroup v5", "< JoinGroup v5"]
    result = kproxy("dissect", "-f", "findngs", capture)
    assert (result.returncode, result.stdout) == (2, "")
    assert "did you mean 'findings'? Quote it to search for the text" in result.stderr
