"""`kproxy diff` of captures, traces and built-in brokers; `kproxy export-test` of the differences."""

from __future__ import annotations

import json
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kproxy.broker.threaded import BrokerThread
from kproxy.pytest_plugin import exchange_with
from tests.kproxy.cli.conftest import Run

ROOT = Path(__file__).parents[3]
CAPTURES = ROOT / "captures"
LAYOUT_3 = CAPTURES / "metadata-v1-in-the-layout-of-v3.pcap.gz"
THROTTLE = CAPTURES / "metadata-v1-throttle-first.pcap.gz"
CORRECT = CAPTURES / "find-coordinator-v0-right.pcap.gz"


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    """A correct broker and one with a quirk."""
    quirk = "metadata-throttle-first"
    with BrokerThread(topics={"orders": 1}) as a, BrokerThread(topics={"orders": 1}, quirks=[quirk]) as b:
        yield a.bootstrap, b.bootstrap


def test_diff_of_a_recording_with_itself_finds_no_difference(kproxy: Run, tmp_path: Path) -> None:
    result = kproxy("diff", THROTTLE, THROTTLE)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith("\nno differences in 4 pairs of exchanges\n")
    trace = kproxy("dissect", "--json", "--detail", "full", THROTTLE).stdout
    (tmp_path / "trace.jsonl").write_text(trace)
    assert kproxy("diff", "trace.jsonl", THROTTLE).returncode == 0
    assert kproxy("diff", tmp_path, THROTTLE).returncode == 0


RECORDED_RUNS = Path(__file__).parents[2] / "data/diff"
#: APIs with differences between Kafka and the built-in broker that docs/diff.md explains.
APIS_WITH_DIFFERENCES = {
    "ApiVersions",
    "CreateTopics",
    "DescribeConfigs",
    "DescribeLogDirs",
    "ListGroups",
    "ListOffsets",
    "Metadata",
}


def test_two_runs_are_equal_and_the_built_in_broker_differs_only_as_documented(kproxy: Run) -> None:
    """Sarama used all its features twice against Kafka 4.3.1 and once against the built-in broker."""
    first, second, built_in = (RECORDED_RUNS / f"sarama-{name}.jsonl.gz" for name in ("kafka-1", "kafka-2", "built-in"))
    options = ("--may-differ", "offset", "--text-may-differ", "[0-9]{5,}-[0-9]+")
    assert kproxy("diff", first, first).returncode == 0
    result = kproxy("diff", first, second, *options)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
    assert "no differences in 141 pairs of exchanges\n" in result.stdout
    assert (
        "requests to a broker that was not ready, not compared (A and B): AddPartitionsToTxn 1 and 1" in result.stdout
    )
    *lines, _ = map(json.loads, kproxy("diff", first, built_in, *options, "--json").stdout.splitlines())
    assert {line["api"] for line in lines} == APIS_WITH_DIFFERENCES
    assert {line["aspect"] for line in lines} == {"field", "order"}
    page = (Path(__file__).parents[3] / "docs/diff.md").read_text()
    assert [api for api in APIS_WITH_DIFFERENCES if f"`{api}`" not in page] == []


def test_writes_differences_as_json(kproxy: Run) -> None:
    result = kproxy("diff", LAYOUT_3, CAPTURES / "metadata-v1-without-its-fields.pcap.gz", "--json", "--ignore", "L")
    *differences, end = map(json.loads, result.stdout.splitlines())
    assert result.returncode == 1
    first = {
        "aspect": "field", "subject": "", "api": "Metadata", "versions": [[1, 1]], "direction": "response",
        "path": "controller_id", "a": 1, "b": None, "why": "only in A", "owner": "MetadataResponse",
        "place_a": "#0:2", "place_b": "#0:2", "count": 2,
    }  # fmt: skip
    assert first in differences
    assert end["summary"] == {"field": len(differences)}
    assert end["a"] == {"name": str(LAYOUT_3), "connections": 2, "requests": 4}


def test_writes_an_html_page(kproxy: Run, tmp_path: Path) -> None:
    result = kproxy("diff", LAYOUT_3, THROTTLE, "--html", "page.html")
    page = (tmp_path / "page.html").read_text()
    assert result.returncode == 1
    assert "<h2>Finding</h2>" in page
    assert "<td><code>L005 Metadata response</code></td><td><code>absent</code></td>" in page
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert str(CAPTURES) not in page


def test_compare_selects_types_of_values(kproxy: Run) -> None:
    names = CORRECT, CAPTURES / "find-coordinator-v1-correlation-id-twice.pcap.gz"
    paths = [
        {json.loads(line).get("path") for line in kproxy("diff", *names, "--json", *options).stdout.splitlines()}
        for options in ((), ("--compare", "Address"), ("--compare", "node-id,address"))
    ]
    assert ["host" in path for path in paths] == [False, True, True]


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (
            (THROTTLE, THROTTLE, "--text-may-differ", "("),
            2,
            "--text-may-differ: (: not a regular expression: missing )",
        ),
        ((THROTTLE, "nowhere.pcap"), 2, "nowhere.pcap: No such file or directory"),
        ((THROTTLE, "localhost:9092"), 2, "A and B must both be files, or both be brokers"),
        ((THROTTLE, THROTTLE, "--requests", "x"), 2, "--requests is for two live brokers"),
        ((THROTTLE, THROTTLE, "--may-differ", "ofset"), 2, "did you mean offset?"),
        ((THROTTLE, "summary.jsonl"), 2, "has no bodies: record the trace with --detail full"),
        ((THROTTLE, CAPTURES / "http-on-kafkas-port.pcap.gz"), 5, "has no Kafka request"),
        ((THROTTLE, THROTTLE, "--html", "no/page.html"), 2, "--html no/page.html: No such file or directory"),
        (("127.0.0.1:1", "127.0.0.1:1"), 3, "is the broker running?"),
        (("127.0.0.1:1", "127.0.0.1:1", "--requests", "requests.txt"), 2, "line 2: unknown API 'Metdata'"),
        (("127.0.0.1:1", "127.0.0.1:1", "--requests", "empty.txt"), 2, "no request in it"),
    ],
)
def test_usage_errors_print_one_sentence(
    kproxy: Run, tmp_path: Path, words: tuple[object, ...], status: int, sentence: str
) -> None:
    (tmp_path / "requests.txt").write_text("# comment\nMetdata:9\n")
    (tmp_path / "empty.txt").write_text("\n")
    if "summary.jsonl" in words:
        (tmp_path / "summary.jsonl").write_text(kproxy("dissect", "--json", THROTTLE).stdout)
    result = kproxy("diff", *words)
    assert result.returncode == status, result.stdout
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def documented_commands() -> dict[str, list[str]]:
    """Return the commands in docs/diff.md with the lines that each one prints."""
    page = (ROOT / "docs/diff.md").read_text()
    matches = re.findall(r"^    \$ kproxy (.+)\n((?:    .*\n|\n)+)", page, re.MULTILINE)
    return {command: textwrap.dedent(output).strip().splitlines() for command, output in matches}


@pytest.mark.wide
def test_quirk_is_the_only_difference_between_two_brokers(kproxy: Run, brokers: tuple[str, str]) -> None:
    [command] = [command for command in documented_commands() if "localhost" in command]
    for documented_address, address in zip(("localhost:9092", "localhost:19092"), brokers, strict=True):
        command = command.replace(documented_address, address)
    result = kproxy(*shlex.split(command), "--json", "--ignore", "L034")
    *differences, end = map(json.loads, result.stdout.splitlines())
    assert (result.returncode, result.stderr) == (1, "")
    # The quirk limits the versions of Metadata.
    assert {difference["path"] for difference in differences} == {
        "",
        "throttle_time_ms",
        "api_keys[Metadata].max_version",
    }
    assert [difference["subject"] for difference in differences if difference["aspect"] == "finding"] == ["L005"]
    assert end["pairs"] > 250


def test_requests_option_selects_the_requests(kproxy: Run, brokers: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "requests.txt").write_text('Metadata:1 topics=orders\n{"api": "FindCoordinator", "version": 1}\n')
    result = kproxy("diff", *brokers, "--requests", "requests.txt")
    assert "finding L005 Metadata response\n  A: absent\n" in result.stdout
    assert f"A: {brokers[0]}: 1 connection, 2 requests\n" in result.stdout
    assert kproxy("diff", brokers[0], brokers[0], "--requests", "requests.txt").returncode == 0


def test_reports_a_broker_that_closes_the_connection(kproxy: Run, brokers: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "requests.txt").write_text("DescribeCluster:0\nFindCoordinator:1\n")
    with BrokerThread(quirks=["DescribeCluster:close"]) as closing:
        result = kproxy("diff", brokers[0], closing.bootstrap, "--requests", "requests.txt", "--select", "L")
    assert "response DescribeCluster v0\n  A: received\n  B: none\n" in result.stdout
    assert "in 2 pairs of exchanges: response 1\n" in result.stdout


def test_commands_in_the_documentation_print_its_output(kproxy: Run) -> None:
    offline_commands = {
        command: output for command, output in documented_commands().items() if "localhost" not in command
    }
    assert len(offline_commands) == 3
    for command, output in offline_commands.items():
        result = kproxy(*(str(ROOT / part) if part.startswith("captures/") else part for part in shlex.split(command)))
        assert result.stdout.replace(f"{ROOT}/", "").strip().splitlines() == output


def export_test(kproxy: Run, *words: object) -> Callable[[Callable[[bytes], Any]], None]:
    """Export a test; return its test function."""
    result = kproxy("export-test", *words)
    assert (result.returncode, result.stderr) == (0, "")
    namespace: dict[str, Any] = {}
    exec(compile(result.stdout, "test_exported.py", "exec"), namespace)
    [function] = [value for name, value in namespace.items() if name.startswith("test_")]
    return function


def test_exported_test_fails_with_the_quirk_and_passes_with_a_correct_broker(
    kproxy: Run, brokers: tuple[str, str]
) -> None:
    correct, deviating = map(exchange_with, brokers)
    exported_test = export_test(kproxy, THROTTLE, "#0:2")
    exported_test(correct)
    with pytest.raises(AssertionError):
        exported_test(deviating)


def test_exported_test_without_findings_checks_the_recorded_error_codes(
    kproxy: Run, brokers: tuple[str, str], tmp_path: Path
) -> None:
    exported_test = export_test(kproxy, THROTTLE, "metadata-v1-throttle-first-0:1")
    exported_test(exchange_with(brokers[0]))
    text = kproxy("export-test", THROTTLE, "0:1", "-o", "test_it.py").stdout
    assert text == ""
    assert "assert response.errors == {}\n" in (tmp_path / "test_it.py").read_text()


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        ((THROTTLE, "12"), 2, "invalid exchange '12': use CONNECTION:CORRELATION_ID, e.g. 0:12"),
        ((THROTTLE, "0:99"), 5, "has no exchange 0:99"),
        ((CAPTURES / "sasl-plain-in-the-clear.pcap.gz", "0:3"), 2, "SaslAuthenticate requests can have secrets"),
        (("full.jsonl", "0:2"), 2, "record it with --detail raw"),
        ((THROTTLE, "0:2", "-o", "no/test.py"), 2, "--output no/test.py: No such file or directory"),
    ],
)
def test_export_errors_print_one_sentence(
    kproxy: Run, tmp_path: Path, words: tuple[object, ...], status: int, sentence: str
) -> None:
    (tmp_path / "full.jsonl").write_text(kproxy("dissect", "--json", "--detail", "full", THROTTLE).stdout)
    result = kproxy("export-test", *words)
    assert result.returncode == status, result.stdout
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_export_reports_a_finding_that_depends_on_other_exchanges(kproxy: Run) -> None:
    result = kproxy("export-test", CAPTURES / "fetches-empty-below-high-watermark.pcap.gz", "0:6")
    assert result.stderr == "kproxy: S024 depends on other exchanges: the test does not check it\n"


def test_text_may_differ_option_applies_to_brokers(kproxy: Run, tmp_path: Path) -> None:
    (tmp_path / "requests.txt").write_text("Metadata:9 topics=null\n")
    with BrokerThread(topics={"orders-1": 1}) as a, BrokerThread(topics={"orders-2": 1}) as b:
        words = ("diff", a.bootstrap, b.bootstrap, "--requests", "requests.txt")
        assert kproxy(*words).returncode == 1
        assert kproxy(*words, "--text-may-differ", "[0-9]+$").returncode == 0
