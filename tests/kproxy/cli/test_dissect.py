"""`kproxy dissect`: every capture of real clients, and wrong input."""

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
from tests.kproxy.capture.packets import RST_ACK, SYN, pcap, sent
from tests.kproxy.cli.conftest import Run
from tests.kproxy.test_right_traffic import RIGHT

CAPTURES = Path(__file__).parents[2] / "data" / "pcap"
PLAIN = sorted(path.name for path in CAPTURES.glob("*.pcap.gz") if "tls" not in path.name and "ssl" not in path.name)


def lines(text: str) -> list[dict]:  # type: ignore[type-arg]
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", PLAIN)
def test_decodes_every_frame_of_real_clients_completely(kproxy: Run, name: str) -> None:
    done = kproxy("dissect", "--json", "--detail", "full", CAPTURES / name)
    assert done.stderr == ""
    parsed = lines(done.stdout)
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
    assert {(name.removesuffix(".pcap.gz"), finding["code"]) for finding in findings} <= RIGHT.keys()
    separate_findings = [line for line in parsed if line["kind"] == "finding" and line["severity"] != "info"]
    assert {(name.removesuffix(".pcap.gz"), line["code"]) for line in separate_findings} <= RIGHT.keys()
    assert done.returncode == any(finding["severity"] == "error" for finding in findings + separate_findings)
    midstream = {line["connection_id"] for line in parsed if line["kind"] == "open" and line.get("midstream")}
    assert all(line["connection_id"] in midstream for line in parsed if line["kind"] == "gap")


@pytest.mark.parametrize("name", ["tls-kafka-python-4.3.1", "sasl_ssl-scram512-kafka-python-4.3.1"])
def test_tls_is_reported_and_decrypted_with_its_key_log(kproxy: Run, name: str) -> None:
    closed = kproxy("dissect", CAPTURES / f"{name}.pcap.gz")
    assert closed.returncode == 5
    assert "6 TLS" in closed.stderr
    assert "--keylog" in closed.stderr
    done = kproxy("dissect", "--json", "--keylog", CAPTURES / f"{name}.keys", CAPTURES / f"{name}.pcap.gz")
    parsed = lines(done.stdout)
    assert {line.get("tls") for line in parsed if line["kind"] == "open"} == {True}
    frames = [line for line in parsed if line["kind"] in ("request", "response")]
    assert len(frames) > 30
    assert all("not_decoded" not in line for line in frames)
    assert all(finding["severity"] == "info" for line in frames for finding in line.get("findings", ()))


def test_tls_on_the_given_port_is_a_finding(kproxy: Run) -> None:
    done = kproxy("dissect", "--port", "21295", CAPTURES / "tls-java-nokeys-4.3.1.pcap.gz")
    assert done.returncode == 1
    assert "X001 tls-to-plaintext" in done.stdout


def test_text_has_a_row_per_frame(kproxy: Run) -> None:
    done = kproxy("dissect", "--ignore", "K", CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz")
    assert " > ApiVersions v4 " in done.stdout
    assert " < CreateTopics v7 " in done.stdout
    assert "secret" not in done.stdout


def test_no_output_contains_a_secret(kproxy: Run) -> None:
    name = CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz"
    for options in (["-v"], ["--json", "--detail", "full"], ["--json", "--detail", "raw"]):
        out = kproxy("dissect", *options, name).stdout
        assert "(redacted" in out
        assert "AGFsaWNlAHNlY3JldA" not in out  # base64 of \0alice\0secret
        assert "\0alice\0secret" not in out


def test_filter_and_fields_select_rows_and_columns(kproxy: Run) -> None:
    name = CAPTURES / "java-4.3.1.pcap.gz"
    done = kproxy("dissect", "-f", "api=Produce and kind=response", "--fields", "api,version,topic,latency", name)
    rows = [row.split("\t") for row in done.stdout.splitlines()]
    assert rows
    assert {row[0] for row in rows} == {"Produce"}
    assert all(row[1].isdigit() and row[3].isdigit() for row in rows)
    objects = kproxy("dissect", "--json", "-f", "api=Produce", "--fields", "api,correlation_id", name)
    assert set(lines(objects.stdout)[0]) == {"api", "correlation_id"}


def test_trace_gives_the_same_output_as_its_capture(kproxy: Run, tmp_path: Path) -> None:
    name = CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz"
    first = kproxy("dissect", "--json", name).stdout
    folder = tmp_path / "trace" / "date=2026-11-21" / "hour=03"
    folder.mkdir(parents=True)
    (folder / "kproxy-a-1-1.jsonl").write_text(first)
    assert kproxy("dissect", "--json", tmp_path / "trace").stdout == first
    assert kproxy("dissect", tmp_path / "trace").stdout == kproxy("dissect", name).stdout


def test_reads_standard_input_and_several_files(kproxy: Run) -> None:
    name = CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz"
    plain = gzip.decompress(name.read_bytes())
    from_file = lines(kproxy("dissect", "--json", name).stdout)
    piped = lines(kproxy("dissect", "--json", "-", stdin=plain).stdout)
    assert [line["kind"] for line in piped] == [line["kind"] for line in from_file]
    twice = [line["connection_id"] for line in lines(kproxy("dissect", "--json", name, name).stdout)]
    once = [line["connection_id"] for line in from_file]
    assert twice[: len(once)] == once
    assert len(set(twice)) == 2 * len(set(once))


def test_truncated_capture_is_read_and_reported(kproxy: Run, tmp_path: Path) -> None:
    plain = gzip.decompress((CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())
    (tmp_path / "cut.pcap").write_bytes(plain[: len(plain) // 2])
    done = kproxy("dissect", tmp_path / "cut.pcap")
    assert done.returncode == 0
    assert " > ApiVersions v4 " in done.stdout
    assert done.stderr.startswith("kproxy: ")
    assert done.stderr.count("\n") == 1


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
def test_invalid_input_is_one_sentence_and_status_2(
    kproxy: Run, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "bytes.pcap"
    if content is not None:
        path.write_bytes(content)
    done = kproxy("dissect", path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.startswith("kproxy: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-f", "api="], "filter: "),
        (["--fields", "nope"], "unknown field 'nope'"),
        (["--keylog", "/nonexistent"], "/nonexistent: No such file"),
        (["--port", "x"], "invalid int value"),
    ],
)
def test_invalid_options_are_one_sentence_and_status_2(kproxy: Run, options: list[str], message: str) -> None:
    done = kproxy("dissect", *options, CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz")
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_reports_a_capture_without_kafka(kproxy: Run) -> None:
    done = kproxy("dissect", "--port", "1", CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz")
    assert done.returncode == 5
    assert "no Kafka connection on port 1 in 113 packets" in done.stderr


def test_reads_all_captures_and_traces_of_a_directory(kproxy: Run, tmp_path: Path) -> None:
    capture = gzip.decompress((CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())
    for name in ("day.pcap", "day.pcap1", "notes.txt"):  # the names that tcpdump -C uses
        (tmp_path / name).write_bytes(capture)
    trace = kproxy("dissect", "--json", tmp_path / "day.pcap").stdout
    (tmp_path / "then").mkdir()
    (tmp_path / "then" / "a.jsonl").write_text(trace)
    done = kproxy("dissect", "--json", tmp_path)
    numbers = re.compile(r'"day(?:\.pcap1)?-\d+"')
    assert numbers.sub("", done.stdout) == 3 * numbers.sub("", trace)
    first, second = (set(re.findall(rf'"{name}-(\d+)"', done.stdout)) for name in ("day", r"day\.pcap1"))
    assert first.isdisjoint(second)
    assert (done.returncode, done.stderr) == (0, "")


def test_reads_a_compressed_trace_from_a_slow_pipe() -> None:
    trace = (Path(__file__).parents[3] / "captures" / "trace-1.jsonl").read_bytes()
    data = zstandard.compress(trace)
    command = [sys.executable, "-m", "kproxy", "dissect", "--json", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(data[:20])
        while int.from_bytes(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)), sys.byteorder):
            time.sleep(0.01)  # until it has read them
        process.stdin.write(data[20:])
        process.stdin.close()
        assert lines(process.stdout.read().decode()) == lines(trace.decode())


def test_unreadable_file_of_a_directory_is_reported_and_the_rest_is_read(kproxy: Run, tmp_path: Path) -> None:
    capture = gzip.decompress((CAPTURES / "sasl-plain-kafka-python-4.3.1.pcap.gz").read_bytes())
    (tmp_path / "a.pcap").touch()
    (tmp_path / "b.pcap.zst").write_bytes(zstandard.compress(capture))
    (tmp_path / ".c.jsonl.zst.part").touch()  # has just been started
    done = kproxy("dissect", "--json", tmp_path)
    assert done.returncode == 2
    assert done.stdout == kproxy("dissect", "--json", tmp_path / "b.pcap.zst").stdout != ""
    assert done.stderr == f"kproxy: {tmp_path}/a.pcap is empty: capture again, e.g. with tcpdump -w FILE port 9092\n"


def test_reports_a_directory_without_traces(kproxy: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = kproxy("dissect", tmp_path / "empty")
    assert done.returncode == 2
    assert "no trace (*.jsonl) and no capture" in done.stderr


def test_reports_refused_connection_attempts(kproxy: Run, tmp_path: Path) -> None:
    path = tmp_path / "refused.pcap"
    packets = [sent(99, flags=SYN), sent(0, ack=100, flags=RST_ACK, server=True)]
    path.write_bytes(pcap(packets))
    done = kproxy("dissect", path)
    assert f"{path}: no Kafka connection in 2 packets" in done.stderr
    assert "1 connection was attempted but never established: 10.0.0.1:9092 refused (1)" in done.stderr
    done = kproxy("dissect", "--findings", path)
    assert done.returncode == 5


def test_searches_text_in_bodies(kproxy: Run) -> None:
    capture = Path(__file__).parents[3] / "captures" / "join-group-never-synced.pcap.gz"
    done = kproxy("dissect", "-f", "range and not nothing-of-that", capture)
    assert [row[20:34] for row in done.stdout.splitlines()] == ["> JoinGroup v5", "< JoinGroup v5"]
    done = kproxy("dissect", "-f", "findngs", capture)
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'findings'? Quote it to search for the text" in done.stderr
