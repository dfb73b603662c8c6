"""`kproxy analyze` runs in this process, on the session of the tests, and as a separate process."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from kproxy.cli import main
from kproxy.errors import UserError
from kproxy.io.extras import install_command
from kproxy.spark import jobs, session
from kproxy.spark.session.embedded_engine import EmbeddedEngine
from tests.kproxy.cli.test_hostile_traces import BROKEN, LINE
from tests.kproxy.spark.conftest import ENGINE
from tests.kproxy.spark.files import CAPTURES, TRACE_1, trace_bytes, write
from tests.kproxy.spark.sample_lines import request, response

Analyze = Callable[..., tuple[int, str, str]]
TRACE = [
    request("Fetch"), response("Fetch", at=1, latency_us=2100), response("Produce", at=2, latency_us=30_500_000),
    response("Fetch", at=7200, latency_us=4100, client_id="o\x1b[31m<b>ther"),
]  # fmt: skip


@pytest.fixture
def analyze(spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Analyze:
    """Return a function that runs a command in this process; it returns the status, standard output and error."""
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    monkeypatch.setattr(EmbeddedEngine, "connect", lambda _: spark)  # instead of starting a process for each command

    def run(*args: object) -> tuple[int, str, str]:
        capfd.readouterr()
        status = main(["analyze", "--engine", ENGINE, *map(str, args)])
        return status, *capfd.readouterr()

    return run


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("traces") / "x.jsonl", trace_bytes(*TRACE)).parent


def test_tables_have_units_and_hostile_text_is_escaped(analyze: Analyze, trace: Path) -> None:
    status, out, err = analyze(trace, "--job", "latency", "--rows", "5")
    assert (status, err) == (0, "")
    title, heading, *rows, more, end = out.split("\n")[:-1]
    assert (title, more, end) == ("# latency", "# more rows omitted: use --rows N to show more than 5", "")
    assert heading.split("\t")[:4] == ["by", "api", "value", "responses"]
    assert rows[0].split("\t") == ["api", "Produce", "", "1", *["30.5 s"] * 5]
    assert rows[1].split("\t")[4] == "3.1 ms"
    assert len(rows) == 5
    _, out, _ = analyze(trace, "--job", "latency", "--where", "client=o*")
    assert "\x1b" not in out
    assert "<b>ther" in out


def test_closed_pipe_is_not_an_error(analyze: Analyze, trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    results = []
    with suppress(BrokenPipeError), os.fdopen(write_end, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        results += [
            analyze(trace, "--job", "latency", "--format", output_format) for output_format in ("table", "csv", "json")
        ]
    assert results == [(0, "", "")] * 3


def test_filters_and_times_select_the_lines(analyze: Analyze, trace: Path) -> None:
    def response_counts(*args: str) -> dict[str, int]:
        _, out, _ = analyze(trace, "--job", "latency", "--format", "json", *args)
        rows = map(json.loads, out.splitlines())
        return {row["api"]: row["responses"] for row in rows if row["by"] == "api"}

    assert response_counts() == {"Fetch": 2, "Produce": 1}
    assert response_counts("--where", "latency>3ms and api=Fetch") == {"Fetch": 1}
    assert response_counts("--since", "2026-11-21T06:00") == {"Fetch": 1}
    assert response_counts("--until", "2026-11-21T05:00:02Z") == {"Fetch": 1}
    assert response_counts("--since", "2026-11-22") == {}
    assert response_counts("--where", "api=Fetch", "--sample", "1") == {"Fetch": 2}
    assert response_counts("--sample", "0.000001") == {}


def test_standard_output_and_files_have_the_same_rows(
    analyze: Analyze, spark: SparkSession, trace: Path, tmp_path: Path
) -> None:
    _, out, _ = analyze(trace, "--job", "latency", "--format", "json")
    expected = [json.loads(line) for line in out.splitlines()]
    assert {row.pop("job") for row in expected} == {"latency"}
    assert expected[0]["max_us"] == 30_500_000
    _, out, _ = analyze(trace, "--job", "latency", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["api"], row["value"], int(row["max_us"])) for row in rows] == [
        (row["api"], row["value"] or "", row["max_us"]) for row in expected
    ]
    for output_format in ("parquet", "json", "csv"):
        out_dir = tmp_path / output_format
        assert analyze(trace, "--job", "latency", "--format", output_format, "--out", out_dir) == (0, "", "")
        written_rows = spark.read.option("header", True).format(output_format).load(f"{out_dir}/latency")
        assert written_rows.count() == len(expected)
    assert analyze(trace, "--job", "latency", "--out", tmp_path / "parquet")[0] == 0  # this replaces the existing files
    assert spark.read.parquet(f"{tmp_path}/parquet/latency").columns == list(expected[0])


def test_times_in_files_have_microseconds(analyze: Analyze, trace: Path, tmp_path: Path) -> None:
    for output_format in ("json", "csv"):
        args = ("--job", "slow-exchanges", "--format", output_format)
        assert analyze(trace, *args, "--out", tmp_path / output_format)[0] == 0
        [file] = (tmp_path / output_format / "slow-exchanges").glob("*." + output_format)
        printed_times = re.findall(r"2026-11-21T[^\",]+Z", analyze(trace, *args)[1])
        assert printed_times
        assert re.findall(r"2026-11-21T[^\",]+Z", file.read_text()) == printed_times


def test_failing_table_does_not_affect_the_others(
    analyze: Analyze, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(lines: DataFrame) -> DataFrame:
        return lines.select("nothing")

    def find(name: str) -> jobs.Job:
        job = original_find(name)
        return jobs.Job(job.name, job.help, fail) if name == "errors" else job

    original_find = jobs.find
    monkeypatch.setattr(jobs, "find", find)
    status, out, err = analyze(trace, "--job", "errors", "--job", "latency", "--format", "json")
    assert status == 2
    assert {json.loads(line)["job"] for line in out.splitlines()} == {"latency"}
    engine = {"spark": "Spark", "embedded": "the embedded engine"}[ENGINE]
    assert f"kproxy: {engine} could not make errors: " in err
    assert "nothing" in err
    status, out, err = analyze(trace, "--job", "errors", "--format", "json")
    assert (status, out) == (2, "")


def test_traces_captures_and_converted_tables_give_equal_results(analyze: Analyze, tmp_path: Path) -> None:
    args = ("--job", "latency", "--format", "json")
    direct = analyze(CAPTURES, *args)
    assert direct[0] == 0
    assert direct[1].count("\n") > 50
    status, out, err = analyze("convert", CAPTURES, "--out", tmp_path / "table")
    assert (status, out) == (0, "")
    files = len([*CAPTURES.rglob("*.pcap.gz"), TRACE_1])
    assert err.startswith(f"{files} of {files} files were new: ")
    assert analyze(tmp_path / "table", *args) == direct
    write(tmp_path / "more" / "x.jsonl", trace_bytes(response("Produce")))
    assert analyze(tmp_path / "table", tmp_path / "more", *args)[1] != direct[1]


def test_convert_reports_new_grown_and_unreadable_files(analyze: Analyze, trace: Path, tmp_path: Path) -> None:
    table = tmp_path / "table"
    path = write(tmp_path / "in" / "x.jsonl", (trace / "x.jsonl").read_bytes())
    bad = write(tmp_path / "in" / "y.jsonl", b"a\x1b[2Jb\n")
    status, _, err = analyze("convert", tmp_path / "in", "--out", table)
    assert status == 2
    assert err.splitlines() == [
        f"kproxy: 1 of 5 lines could not be read and were skipped, as in file:{bad}: a\\x1b[2Jb",
        f"2 of 2 files were new: 4 lines added to {table}",
    ]
    assert analyze("convert", tmp_path / "in", "--out", table)[2] == (
        f"0 of 2 files were new: 0 lines added to {table}\n"
    )
    write(path, path.read_bytes() * 2)
    warning = (
        f"kproxy: file:{path} has grown since it was converted; the new lines were skipped: convert only complete files"
    )
    assert analyze("convert", tmp_path / "in", "--out", table)[2].splitlines()[0] == warning


def test_incomplete_last_line_of_a_killed_run_is_not_damage(analyze: Analyze, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder / "killed.jsonl", trace_bytes(request(), request())[:-9])
    status, _, err = analyze("convert", folder, "--out", tmp_path / "table")
    assert (status, err.count("1 of 2 lines could not be read and were skipped")) == (0, 1)
    write(folder / "damaged.jsonl", trace_bytes(request()) + b"no line\n" + trace_bytes(request())[:-9])
    assert analyze("convert", folder, "--out", tmp_path / "table")[0] == 2


def test_convert_counts_lines_and_files_and_names_bad_files(analyze: Analyze, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    traces = [write(folder / f"{name}.jsonl", b"no line\nno line either\n" + trace_bytes(request())) for name in "ab"]
    captures = [write(folder / f"{number:02d}.pcap", b"no capture at all") for number in range(12)]
    write(folder / "torn.jsonl.gz", trace_bytes(request(), request())[:-9])
    empty_files = [write(folder / "deep" / "empty.pcap", b""), write(folder / "e mpty.pcapng.1.zst", b"")]
    empty_files[1].write_bytes(b"")
    status, out, err = analyze("convert", folder, "--out", tmp_path / "table")
    assert (status, out) == (2, "")
    empty_file_warnings, (bad_lines, bad_files, reports) = err.splitlines()[:-3], err.splitlines()[-3:]
    assert sorted(empty_file_warnings) == [
        f"kproxy: {path} is empty (0 bytes) and was skipped" for path in empty_files[:1]
    ]
    assert bad_lines == (
        f"kproxy: 4 of 7 lines could not be read and were skipped, as in file:{traces[0]}: no line; "
        f"file:{traces[0]}, file:{traces[1]} have such lines"
    )
    assert bad_files.startswith("kproxy: 13 of 15 files could not be read completely: ")
    assert [str(path) in bad_files for path in captures] == [True] * 10 + [False] * 2
    assert bad_files.endswith(" and 3 more")
    assert reports == f"15 of 15 files were new: 3 lines added to {tmp_path / 'table'}"
    (folder / "only").mkdir()
    only_file = write(folder / "only" / "empty.pcap", b"")
    for args in (("convert", only_file.parent, "--out", tmp_path / "other"), (only_file.parent, "--job", "latency")):
        status, out, err = analyze(*args)
        assert (status, out) == (2, "")
        assert err.splitlines()[0] == f"kproxy: {only_file} is empty (0 bytes) and was skipped"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["convert", "x"], "usage: kproxy analyze convert TRACES --out DIR"),
        (["convert", "--out", "x"], "usage: kproxy analyze convert TRACES --out DIR"),
        (["convert", "x", "--out", "y", "--job", "latency"], "convert always takes whole files: remove --job"),
        (["x", "--format", "parquet"], "Parquet needs --out DIR"),
        (["x", "--format", "csv"], "CSV holds one table"),
        (["x", "--where", "apii=Fetch"], "unknown field 'apii'"),
        (["x", "--where", "topic~'(a+)+'"], "invalid pattern for Spark"),
        (["x", "--since", "yesterday"], "--since yesterday: use 2025-01-31, 2025-01-31T12:00"),
        (["x", "--until", "2026-02-31"], "--until 2026-02-31: day is out of range"),
        (["convert", "x", "--out", "y", "--sample", "0.1"], "convert always takes whole files: remove --sample"),
        (["x", "--conf", "a"], "invalid --conf a: use KEY=VALUE"),
        (["x", "--keylog", "/nothing"], "--keylog /nothing: no such file"),
        (["/nothing/here"], "/nothing/here: no such file or directory"),
        ([str(Path(__file__).parent)], "no trace (*.jsonl) and no capture"),
        (
            [str(TRACE_1), "--job", "latency", "--out", "/dev/null/x"],
            "Spark " if ENGINE == "spark" else "/dev/null/x/latency: ",
        ),
    ],
)
def test_invalid_usage_is_reported_in_one_sentence(analyze: Analyze, args: list[str], message: str) -> None:
    status, out, err = analyze(*args)
    assert status == 2
    assert err.startswith("kproxy: ")
    assert message in err
    assert err.count("\n") == 1
    assert out == ""


def test_help_lists_every_job(capsys: pytest.CaptureFixture[str]) -> None:
    for args, help_text in (
        (["--help"], "examples:"),
        (["x", "--rows", "0"], "use 1 or more"),
        (["x", "--rows", "many"], "argument --rows: invalid number 'many': use 1 or more"),
        (["x", "--rows", "9" * 30], "argument --rows: use at most 999999999"),
        (["x", "--history", "99999d"], "argument --history: use at most 9999"),
        (["x", "--job", "y"], "'y'"),
        (["x", "--sample", "10"], "use a share of the connections, e.g. 0.1"),
        (["x", "--sample", "nothing"], "use a share of the connections, e.g. 0.1"),
    ):
        with pytest.raises(SystemExit):
            main(["analyze", *args])
        assert help_text in "".join(capsys.readouterr())
    with pytest.raises(SystemExit):
        main(["analyze", "--help"])
    help_output = "".join(capsys.readouterr().out.split())  # lines may be broken after hyphens
    assert all(name in help_output for name in jobs.names())


def test_every_job_can_be_found() -> None:
    for name in jobs.names():
        job = jobs.find(name)
        assert (job.name, job.help != "", job.run.__doc__ != "") == (name, True, True)
    with pytest.raises(KeyError):
        jobs.find("nothing")


def test_missing_java_or_pyspark_is_reported_with_an_instruction(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = set[str]()

    def find_spec(name: str) -> object:
        return None if name in absent else sys

    def fail_without_java(*_: object, **__: object) -> None:
        raise UserError("Spark needs Java")

    monkeypatch.setattr("kproxy.cli.analyze.session.find_spec", find_spec)
    monkeypatch.setattr(session, "session", fail_without_java)
    assert main(["analyze", "--engine", "spark", str(TRACE_1)]) == 2
    assert capsys.readouterr().err == "kproxy: Spark needs Java\n"
    for package in ("pyspark", "py4j"):  # pyspark-client has no py4j
        absent = {package}
        assert main(["analyze", "--engine", "spark", str(TRACE_1)]) == 2
        assert capsys.readouterr().err == f"kproxy: this needs Spark: {install_command('spark')}\n"


_ANALYZE = (sys.executable, "-m", "kproxy", "analyze", "--engine", ENGINE)


def _environment(**variables: str) -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | variables


def test_command_runs_as_a_process_with_the_java_of_the_wheel(trace: Path, tmp_path: Path) -> None:
    """There is no java on the PATH or in JAVA_HOME; the output consists only of tables and sentences."""
    result = subprocess.run(
        [*_ANALYZE, "--job", "latency", "--where", "api=Produce", trace], capture_output=True, text=True,
        timeout=300, cwd=tmp_path, check=False, env=_environment(PATH=_without_java(tmp_path)),
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("# latency\nby\tapi\tvalue\t")
    assert "api\tProduce\t\t1\t30.5 s" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"bin"}


def _without_java(folder: Path) -> str:
    """Create a directory with all commands except java, and return its path."""
    commands = folder / "bin"
    commands.mkdir()
    for command in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        if command.name != "java" and not (commands / command.name).is_symlink():
            (commands / command.name).symlink_to(command)
    return str(commands)


def test_terminal_output_shows_tables_and_progress(trace: Path) -> None:
    leader, follower = pty.openpty()
    command = [*_ANALYZE, "--job", "latency", str(trace)]
    with subprocess.Popen(
        command, stdout=follower, stderr=follower, env=_environment(TERM="xterm", COLUMNS="50")
    ) as process:
        os.close(follower)
        output = b""
        try:
            while chunk := os.read(leader, 65536):
                output += chunk
        except OSError:  # the process has closed the terminal
            pass
        assert process.wait(300) == 0
    os.close(leader)
    text = output.decode()
    assert "read" in text
    assert "0:00:0" in text
    table = re.sub(r"\x1b\[[0-9;]*m", "", text[text.rindex("latency") :]).splitlines()
    rows = [" ".join(line.split()) for line in table]
    heading_index = rows.index("by api value responses")
    percentiles = ["p50: 30.5 s p90: 30.5 s p99: 30.5 s", "p999: 30.5 s max: 30.5 s"]
    assert rows[heading_index + 2 : heading_index + 5] == ["api Produce 1", *percentiles]


def test_hostile_lines_are_counted_and_the_others_used(analyze: Analyze, tmp_path: Path) -> None:
    broken = [*BROKEN.values(), b"x" * 5_000_000]
    path = tmp_path / "hostile.jsonl"
    path.write_bytes(b"".join(LINE + b"\n" + line + b"\n" for line in broken))
    status, out, err = analyze(path, "--job", "clients")
    assert status == 2
    assert f"{len(broken)} of {2 * len(broken)} lines could not be read" in err
    assert "Traceback" not in out + err
    assert len(err) < 2_000
