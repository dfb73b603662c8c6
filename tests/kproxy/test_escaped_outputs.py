"""Hostile text is escaped in reports, pages, dialogs, instructions, completions and HTTP responses."""

from __future__ import annotations

import ast
import io
import json
import re
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console
from textual.app import App
from textual.screen import ModalScreen

from kproxy.browse.export import copies
from kproxy.browse.rows.exchange import Exchange
from kproxy.cli import main
from kproxy.cli.schemas import _report
from kproxy.comparison.bodies import DifferenceKind, FieldDifference
from kproxy.comparison.differences import Aspect, TrafficComparison, TrafficDifference
from kproxy.comparison.traffic import RecordedTraffic
from kproxy.development_ca import store
from kproxy.html.comparison_page import comparison_page
from kproxy.html.probe_page import probe_page
from kproxy.inspection.explain import explain
from kproxy.live.http_server import HttpResponse
from kproxy.live.registry_endpoint import _error
from kproxy.outputs import comparison_report
from kproxy.outputs.probe_report import ProbeReport, junit
from kproxy.outputs.replay_report import ReplayReport
from kproxy.outputs.run_summary import RunSummary
from kproxy.probe.check import Check, CheckResult
from kproxy.replay.exchange import ReplayedExchange, ReplayOutcome
from kproxy.replay.steps import CapturedExchange
from kproxy.trace.lines import FindingEntry, FindingLine, RequestLine
from kproxy.trace.reader import trace_files
from kproxy.tui.dialogs import Confirm, Menu, Prompt, Reading
from kproxy.verdict.causes import Causes
from tests.kproxy.cli.test_relay import Broker, running
from tests.kproxy.frames import request
from tests.kproxy.test_escaping import HOSTILE as ACTIVE
from tests.kproxy.test_escaping import NOT_FOR_TERMINALS

HOSTILE = f"{ACTIVE}[/nope]\0\ud800"
COMMON: dict[str, Any] = {
    "v": 1,
    "ts": "2026-11-21T03:41:00.123456Z",
    "connection_id": HOSTILE,
    "client": HOSTILE,
    "server": HOSTILE,
}


def _assert_harmless(text: str) -> str:
    assert not (match := NOT_FOR_TERMINALS.search(text)), ascii(text[max(match.start() - 80, 0) : match.end()])
    text.encode()
    return text


def _frame(text: str) -> RequestLine:
    finding = FindingEntry("X999", text, "error", text, expected=text, got=text, hint=text)
    return RequestLine(**COMMON, api=text, api_version=1, correlation_id=1, size=9, offset=0, client_id=text,
                       findings=[finding], group_id=text, not_decoded=text)  # fmt: skip


class _Elements(HTMLParser):
    """The elements of a page, each with the names of its attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, ...]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, *(name for name, _ in attrs)))


def _comparison(text: str) -> TrafficComparison:
    kinds = (DifferenceKind.VALUE, DifferenceKind.ONLY_IN_A, DifferenceKind.ONLY_IN_B, DifferenceKind.ERROR_CODE)
    differences = [
        TrafficDifference(aspect, text, text, [(1, 1)], "response", text, text, text, kind, text, text, text)
        for aspect in Aspect
        for kind in kinds
    ] + [TrafficDifference(Aspect.FIELD, a=[text], b=[text], why=DifferenceKind.SEEN)]
    return TrafficComparison(RecordedTraffic(text), RecordedTraffic(text), differences, [text])


def _results(text: str) -> list[CheckResult]:
    async def run(_: object) -> None:
        """Do nothing; the page never runs the check."""

    check = Check("Metadata/v9/2", "a title", "Why.", ("KIP-1",), run)
    evidence = (explain(request("Metadata", 9, {"topics": [{"name": text.encode(errors="replace").decode()}]})),)
    return [CheckResult(check, outcome, text, evidence, 1.0) for outcome in ("fail", "skip", "pass")]  # type: ignore[arg-type]


@pytest.mark.parametrize("page", [lambda text: comparison_page(_comparison(text)),
                                  lambda text: probe_page(text, _results(text), ())])  # fmt: skip
def test_pages_keep_their_elements_with_hostile_text(page: Callable[[str], str]) -> None:
    hostile = f'x" onclick="y"><script>z</script><img src=x onerror=y>{HOSTILE}'
    assert _Elements(_assert_harmless(page(hostile))).elements == _Elements(page("x")).elements


def test_comparison_is_escaped_as_text_and_json() -> None:
    text, lines = io.StringIO(), io.StringIO()
    comparison_report.write_text(_comparison(HOSTILE), text)
    comparison_report.write_json(_comparison(HOSTILE), lines)
    _assert_harmless(text.getvalue())
    for line in _assert_harmless(lines.getvalue()).splitlines():
        json.loads(line)


@pytest.mark.parametrize("as_json", [False, True])
def test_probe_report_is_escaped(as_json: bool) -> None:
    file = io.StringIO()
    report = ProbeReport(file, as_json=as_json, passed=True, quiet=False)
    for check_result in _results(HOSTILE):
        report.add(check_result)
    report.end()
    _assert_harmless(file.getvalue())
    ElementTree.fromstring(_assert_harmless(junit(HOSTILE, report.results, strict=True)))


@pytest.mark.parametrize("as_json", [False, True])
def test_replay_report_is_escaped(as_json: bool) -> None:
    captured = CapturedExchange(_frame(HOSTILE), 1, None)
    file = io.StringIO()
    report = ReplayReport(file, as_json=as_json)
    differences = [
        FieldDifference(HOSTILE, HOSTILE, HOSTILE, why, HOSTILE)
        for why in (DifferenceKind.VALUE, DifferenceKind.ONLY_IN_A, DifferenceKind.ONLY_IN_B)
    ]
    report.add(ReplayedExchange(captured, ReplayOutcome.DIFFERENT, HOSTILE, differences))
    report.add(ReplayedExchange(captured, ReplayOutcome.LEFT_OUT, HOSTILE))
    report.end()
    _assert_harmless(file.getvalue())


@pytest.mark.parametrize("colour", [False, True])
def test_summary_shows_markup_as_text(colour: bool) -> None:
    summary, file = RunSummary(Causes()), io.StringIO()
    summary.add(_frame(HOSTILE))
    summary.add(FindingLine(v=1, ts=COMMON["ts"], connection_id=HOSTILE, code="X1", name="[/nope]", severity="error",
                            message=HOSTILE))  # fmt: skip
    summary.show(Console(file=file, width=1000, force_terminal=colour, color_system="standard" if colour else None))
    output = file.getvalue()
    for code in ("\x1b[1m", "\x1b[2m", "\x1b[0m", "\x1b[1;31m"):
        output = output.replace(code, "")
    _assert_harmless(output)
    assert output.count("[@click=app.quit]y[/]") == 6
    assert "X1 [/nope]" in output


@pytest.mark.parametrize("copy", [copies.as_json, copies.as_markdown])
def test_copied_exchanges_are_escaped(copy: Callable[[Exchange], str]) -> None:
    frame = _frame(HOSTILE)
    event = FindingLine(v=1, ts=HOSTILE, connection_id=HOSTILE, code="X1", name=HOSTILE, severity="error",
                        message=HOSTILE)  # fmt: skip
    for exchange in (Exchange(0, 0, frame), Exchange(0, 0, event=event)):
        copied = _assert_harmless(copy(exchange))
        if copy is copies.as_json:
            json.loads(copied)
        else:
            heading = next(line for line in copied.splitlines() if line)
            assert re.search(" v1, correlation id 1$|^[*]{2}finding[*]{2} at .*, connection ", heading), heading
            assert not re.search("<script|<b>", re.sub(r"(`+) .*? \1(?!`)", "", heading))


DIALOGS: Iterable[Callable[[], ModalScreen[Any]]] = (
    lambda: Menu(HOSTILE, [("x", HOSTILE, HOSTILE)], width=150),
    lambda: Prompt(HOSTILE, HOSTILE),
    lambda: Confirm(HOSTILE, HOSTILE, "q"),
    lambda: Reading(HOSTILE, HOSTILE),
)


@pytest.mark.parametrize("make_dialog", DIALOGS)
async def test_dialogs_show_markup_as_text(make_dialog: Callable[[], ModalScreen[Any]]) -> None:
    app = App[None]()
    async with app.run_test(size=(200, 40)) as pilot:
        app.push_screen(make_dialog())
        await pilot.pause()
        app.notify(HOSTILE, markup=False)
        strips = app.screen._compositor.render_strips()
        screen_text = "\n".join("".join(segment.text for segment in strip) for strip in strips)
    assert "[@click=app.quit]" in screen_text
    for line in screen_text.split("\n"):
        _assert_harmless(line)
        assert line.isprintable(), ascii(line)


def test_instructions_for_a_ca_can_be_pasted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / ACTIVE.replace("/", "\u2215")[:60]
    directory.mkdir()
    (directory / store.CA).write_text("certificate\n")
    assert main(["ca", "export", str(directory)]) == 0
    output = _assert_harmless(capsys.readouterr().err)
    path = str(directory / store.CA)
    line = next(line for line in output.splitlines() if "keytool" in line)
    script = f'set -- {line.strip().removesuffix(chr(92))}\nprintf %s "${{@: -1}}"'
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout == path.encode()
    python = next(line for line in output.splitlines() if "KafkaConsumer(" in line)
    call = ast.parse(python.strip().removeprefix("kafka-python").strip(), mode="eval").body
    assert isinstance(call, ast.Call)
    assert ast.literal_eval(call.keywords[1].value) == path
    assert main(["ca", "export", str(directory), "--output", str(directory / "new.pem")]) == 0
    _assert_harmless(capsys.readouterr().out)
    assert main(["ca", "create", str(directory / "made")]) == 0
    output = _assert_harmless(capsys.readouterr().out)
    assert output.splitlines()[-1].startswith("trust it: kproxy ca export $'")


def test_completion_is_a_valid_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = _assert_harmless(capsys.readouterr().out)
    assert subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=True).stderr == ""


@pytest.mark.parametrize("as_json", [False, True])
def test_schema_changes_are_escaped(as_json: bool, capsys: pytest.CaptureFixture[str]) -> None:
    _report([HOSTILE], [HOSTILE], as_json)
    output = _assert_harmless(capsys.readouterr().out)
    if as_json:
        assert json.loads(output) == {"notes": [HOSTILE], "changes": [HOSTILE]}
    else:
        assert output.count("\n") == 2


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_quirk_is_escaped(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quirks", "Fetch:delay:500,client=a\x7f\x9b\u202e[/nope]", *options]) == 0
    _assert_harmless(capsys.readouterr().out)


def test_http_responses_are_escaped() -> None:
    for response in (HttpResponse.json(HTTPStatus.OK, {"text": HOSTILE}), _error(HTTPStatus.OK, HOSTILE)):
        assert HOSTILE in json.loads(_assert_harmless(response.body.decode())).values()


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker()
    yield broker
    broker.stop()


@pytest.mark.slow
def test_output_of_a_live_proxy_is_escaped(tmp_path: Path, broker: Broker) -> None:
    frame = request("Metadata", 9, {"topics": [{"name": ACTIVE}]}, correlation_id=7, client_id=ACTIVE)
    directory = tmp_path / f"{ACTIVE[:40]}[red]".replace("/", "\u2215")
    options = "--upstream", f"127.0.0.1:{broker.port}", "--trace", directory, "--http", "127.0.0.1:0"
    with running(tmp_path, *options) as proxy:
        with proxy.connect() as client:
            client.sendall(frame)
            assert client.recv(65536)
        proxy.wait_for_message("health and metrics on ")
        address = re.search(r"http://([^:]+):(\d+)", proxy.printed[-1])
        assert address
        with socket.create_connection((address[1], int(address[2])), timeout=10) as http:
            http.sendall(b"GET /\x1b[2J\xc2\x9b\x7f<script> HTTP/1.1\r\nHost: x\x1b\r\n\r\n")
            with http.makefile("rb") as stream:
                _assert_harmless(stream.read().decode().replace("\r\n", "\n"))
        output, error_output = proxy.end()
    assert "[@click=app.quit]" in _assert_harmless(output)
    assert "[@click=app.quit]" in _assert_harmless(error_output)
    assert "[red]" in error_output
    assert "Traceback" not in error_output
    text = "".join(
        file.read_text() for file in trace_files(directory)
    )  # there are two files if the hour ended during the test
    assert text
    for line in _assert_harmless(text).splitlines():
        json.loads(line)
