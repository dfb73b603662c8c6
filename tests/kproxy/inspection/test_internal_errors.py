"""A bug in kproxy that one frame provokes: it is reported with that frame, and everything else is as without it."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dissectors import embedded, rules
from dissectors.connections.events import Direction, RequestReceived
from dissectors.connections.framing import Framer
from dissectors.failures import Failure
from dissectors.messages import message
from dissectors.schemas.codes import ApiKey
from dissectors.trackers.in_flight import InFlight
from kproxy.capture import tcp
from kproxy.capture.kafka_flows import Dissector
from kproxy.cli import main
from kproxy.inspection import explain as explaining
from kproxy.inspection import frame_lines
from kproxy.inspection.inspector import Inspector
from kproxy.outputs import text
from kproxy.spark.ingest.decode import CaptureOptions, decode
from kproxy.trace.encoding import ColumnReader, append_line, append_lines
from kproxy.trace.lines import CloseLine, FindingLine, GapLine, Line, RequestLine, ResponseLine
from kproxy.verdict.causes import Causes
from tests.kproxy.frames import request
from tests.kproxy.stories import Teller

ROOT = Path(__file__).parents[3]
CAPTURE = ROOT / "tests" / "data" / "pcap" / "kcat-4.3.1.pcap.gz"
STORY = """
> ApiVersions v0
< {}
> Heartbeat v0 {"group_id": "g", "generation_id": 1, "member_id": "m"}
< {}
> Metadata v0 {"topics": [{"name": "a"}]}
< {"brokers": [], "topics": []}
"""
Patch = pytest.MonkeyPatch


def failing(plain: Callable[..., Any], which: Callable[..., bool]) -> Callable[..., Any]:
    """The function, which raises when it is called with what `which` is true of."""

    def fail(*args: Any, **named: Any) -> Any:
        if which(*args):
            raise TypeError("unhashable type: 'slice'")
        return plain(*args, **named)

    return fail


def break_decoder(patch: Patch) -> None:
    layouts = message.api_layouts(ApiKey.HEARTBEAT, 0)
    assert layouts is not None
    patch.setattr(layouts.request_kind, "decoder", failing(len, lambda _: True))


def break_rule(patch: Patch) -> None:
    def check(event: RequestReceived, _: object) -> Any:
        if event.message.api == "Heartbeat":
            raise TypeError("unhashable type: 'slice'")
        yield from ()

    rule = rules.Rule("Z999", "z", rules.Severity.INFO, None, "0", (), (), check)
    interested = rules._interested
    patch.setattr(
        rules, "_interested",
        lambda event, *more: (*((rule,) if isinstance(event, RequestReceived) else ()), *interested(event, *more)),
    )  # fmt: skip


def break_tracker(patch: Patch) -> None:
    def which(_: object, event: object, __: object) -> bool:
        return isinstance(event, RequestReceived) and event.message.api == "Heartbeat"

    patch.setattr(InFlight, "observe", failing(InFlight.observe, which))


def break_line(patch: Patch) -> None:
    patch.setattr(frame_lines.summary, "group_id", failing(frame_lines.summary.group_id, is_heartbeat))


def is_heartbeat(message: Any, *_: object) -> bool:
    return bool(message.is_request and message.api == "Heartbeat" and message.body)


def told(story: str) -> list[Line]:
    teller = Teller(Inspector("story"))
    teller.tell(story)
    return teller.lines


@pytest.mark.parametrize("broken", [break_decoder, break_rule, break_tracker, break_line])
def test_the_inspector_reports_it_with_its_frame_and_the_others_are_as_they_were(
    monkeypatch: Patch, internal_errors: list[Failure], broken: Callable[[Patch], None]
) -> None:
    before = told(STORY)
    broken(monkeypatch)
    after = told(STORY)
    assert len(internal_errors) == 1
    assert [type(line) for line in after] == [type(line) for line in before]
    [at] = [number for number, line in enumerate(after) if "internal-error" in repr(line)]
    line = after[at]
    assert isinstance(line, RequestLine)
    assert (line.api, line.correlation_id, line.size) == ("Heartbeat", 2, before[at].size)  # type: ignore[union-attr]
    found = next(finding for finding in line.findings if finding.code == "K007")
    assert found.message.startswith("internal error while ")
    assert found.message.endswith(": TypeError: unhashable type: 'slice'")
    assert found.severity == "error"
    assert found.hint is not None
    assert "please report" in found.hint
    assert "SHA-256" in found.hint
    assert found.got is not None
    assert "test_internal_errors.py:" in found.got
    # The contents are left out only where they could not be read; its response has its request either way.
    assert bool(line.not_decoded) == (broken in (break_decoder, break_line))
    answer = after[at + 1]
    assert isinstance(answer, ResponseLine)
    assert (answer.api, answer.latency_us, answer.not_decoded) == ("Heartbeat", 1000, None)
    assert after[:at] + after[at + 2 :] == before[:at] + before[at + 2 :]


def test_it_is_reported_once_in_a_run_and_then_counted(monkeypatch: Patch, internal_errors: list[Failure]) -> None:
    break_tracker(monkeypatch)
    lines = told(3 * STORY + 2 * STORY.replace("> ", "2> ").replace("< ", "2< ") + "close\n2 close")
    assert len(internal_errors) == 5
    assert sum("K007" in [finding.code for finding in getattr(line, "findings", ())] for line in lines) == 1
    closed = [line for line in lines if isinstance(line, CloseLine)]
    assert [
        [(finding.code, finding.count) for finding in line.repeated if finding.code == "K007"] for line in closed
    ] == [
        [("K007", 2)],
        [("K007", 2)],
    ]


def test_framing_that_fails_loses_those_bytes_and_goes_on_with_a_later_frame(
    monkeypatch: Patch, internal_errors: list[Failure]
) -> None:
    monkeypatch.setattr(Framer, "push", failing(Framer.push, lambda _, data: b"second" in data))
    inspector = Inspector("t")
    lines = inspector.open(1, "10.0.0.1:1", "10.0.0.2:9092", at=0)
    frames = [request("Metadata", 0, {"topics": [{"name": name}]}) for name in ("first", "second", "third")]
    for at, frame in enumerate(frames):
        lines += inspector.data(1, Direction.REQUEST, frame, at=at)
    lines += inspector.close(1, at=9)
    assert len(internal_errors) == 1
    asked = [line for line in lines if isinstance(line, RequestLine)]
    assert [(line.topics[0].topic, line.offset) for line in asked] == [
        ("first", 0),
        ("third", len(frames[0] + frames[1])),
    ]
    [gap] = [line for line in lines if isinstance(line, GapLine)]
    assert (gap.direction, gap.bytes) == ("request", len(frames[1]))
    assert next(line.code for line in lines if isinstance(line, FindingLine)) == "K007"


@pytest.mark.parametrize("api", ["SaslAuthenticate", "Produce", "Metadata"])
def test_the_text_of_an_exception_is_left_out_where_it_may_be_a_secret(
    monkeypatch: Patch, internal_errors: list[Failure], api: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("hunter2")

    monkeypatch.setattr(InFlight, "observe", fail)
    inspector = Inspector("t")
    inspector.open(1, "10.0.0.1:1", "10.0.0.2:9092", at=0)
    lines = inspector.data(1, Direction.REQUEST, request(api, 0, {}), at=0)
    assert ("hunter2" in repr(lines)) == ("SHA-256" in repr(lines)) == (api == "Metadata")
    assert "ValueError" in repr(lines)
    assert internal_errors


# What the commands make of it


def frames() -> list[dict[str, object]]:
    heartbeat = request("Heartbeat", 0, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    metadata = request("Metadata", 0, {"topics": [{"name": "a"}]})
    return [
        {"id": number, "frame": excerpt_entry.hex()}
        for number, excerpt_entry in enumerate((metadata, heartbeat, metadata))
    ]


def break_payloads(patch: Patch) -> None:
    patch.setattr(embedded, "presentable_body", failing(embedded.presentable_body, is_heartbeat))


def break_explain(patch: Patch) -> None:
    """Not where `kproxy.inspection.explain` handles it itself."""
    patch.setattr(explaining, "read_request", failing(explaining.read_request, lambda frame: b"\0\x0c" in frame[:6]))


@pytest.mark.parametrize("broken", [break_decoder, break_rule, break_tracker, break_payloads, break_explain])
def test_explain_answers_the_lines_after_it(
    monkeypatch: Patch,
    capfdbinary: Any,
    internal_errors: list[Failure],
    broken: Callable[[Patch], None],
) -> None:
    broken(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(frame) + "\n" for frame in frames())))
    assert main(["explain", "--json", "-"]) == 1
    sys.stdout.flush()
    first, failed, last = (json.loads(line) for line in capfdbinary.readouterr().out.splitlines())
    assert first | {"id": 2} == last
    assert last["fields"]
    assert failed["id"] == 1
    [finding] = [finding for finding in failed["findings"] if finding["code"] == "K007"]
    assert "TypeError" in finding["message"]
    assert ("error" in failed) == (broken not in (break_rule, break_tracker))
    assert internal_errors


def test_explain_shows_the_frames_after_it(monkeypatch: Patch, capsys: Any, internal_errors: list[Failure]) -> None:
    for broken in (break_payloads, break_explain):
        broken(monkeypatch)
        assert main(["explain", "".join(str(frame["frame"]) for frame in frames())]) == 1
        out, err = capsys.readouterr()
        assert out.count("Metadata v0 request") == 2
        assert "TypeError" in out + err
    assert internal_errors


FORMS = [[], ["--json"], ["--fields", "api,findings.code,code"], ["--findings"], ["--findings", "--format", "sarif"],
         ["--findings", "--format", "junit"], ["--findings", "--json"], ["--html"], ["-v"]]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_dissect_goes_on_after_a_frame(
    monkeypatch: Patch, capfdbinary: Any, internal_errors: list[Failure], form: list[str]
) -> None:
    plain = frame_lines.summary.topics
    seen = []

    def topics(message: Any, *more: Any, **options: Any) -> Any:
        seen.append(message)
        if len(seen) == 20:
            raise TypeError("unhashable type: 'slice'")
        return plain(message, *more, **options)

    monkeypatch.setattr(frame_lines.summary, "topics", topics)
    assert main(["dissect", *form, str(CAPTURE)]) == 1
    assert len(seen) > 50
    out = capfdbinary.readouterr().out
    assert b"K007" in out or form == ["--html"]  # packed
    assert len(internal_errors) == 1


def break_capture(patch: Patch, broken: str) -> None:
    count = 0

    def tenth(*_: object) -> bool:
        nonlocal count
        count += 1
        return count == 10

    if broken == "packet":
        patch.setattr(tcp, "BytesCaptured", failing(tcp.BytesCaptured, tenth))
    else:
        patch.setattr(Dissector, "process", failing(Dissector.process, tenth))


@pytest.mark.parametrize("broken", ["packet", "connection"])
def test_dissect_goes_on_after_a_packet_and_a_connection(
    monkeypatch: Patch, capsys: Any, internal_errors: list[Failure], broken: str
) -> None:
    break_capture(monkeypatch, broken)
    assert main(["dissect", str(CAPTURE)]) == 1
    out = capsys.readouterr().out
    assert out.count("K007") == 1
    assert out.count("Metadata") > 5
    assert len(internal_errors) == 1


@pytest.mark.parametrize("broken", ["packet", "connection"])
def test_spark_reads_the_same_lines_after_a_packet_and_a_connection(
    monkeypatch: Patch, capfdbinary: Any, internal_errors: list[Failure], broken: str
) -> None:
    with monkeypatch.context() as patch:
        break_capture(patch, broken)
        main(["dissect", "--json", str(CAPTURE)])
    sys.stdout.flush()
    dissected = capfdbinary.readouterr().out
    break_capture(monkeypatch, broken)
    read = [*decode(io.BytesIO(CAPTURE.read_bytes()), str(CAPTURE), CaptureOptions())]
    assert [json.loads(line) for line in read] == [json.loads(line) for line in dissected.splitlines()]
    assert dissected.count(b"K007") == 1
    assert len(internal_errors) == 2


@pytest.mark.parametrize("form", [[], ["--json"], ["--findings"], ["--fields", "api,code"]], ids=" ".join)
def test_dissect_goes_on_after_a_line_of_a_trace(
    monkeypatch: Patch, capfdbinary: Any, internal_errors: list[Failure], tmp_path: Path, form: list[str]
) -> None:
    data = bytearray()
    for line in told(3 * STORY):
        append_line(line, data)
    path = tmp_path / "story.jsonl"
    path.write_bytes(data)

    def which(*args: Any) -> bool:
        return any(getattr(argument, "api", None) == "Heartbeat" for argument in args)

    monkeypatch.setattr(text.TextOutput, "write", failing(text.TextOutput.write, which))
    monkeypatch.setattr(Causes, "add", failing(Causes.add, which))
    monkeypatch.setattr("kproxy.outputs.line_outputs.append_line", failing(append_line, which))
    several = failing(append_lines, lambda lines, _: any(map(which, lines)))
    monkeypatch.setattr("kproxy.outputs.line_outputs.append_lines", several)
    monkeypatch.setattr(ColumnReader, "__call__", failing(ColumnReader.__call__, which))
    assert main(["dissect", *form, str(path)]) == 1
    out, err = capfdbinary.readouterr()
    assert out.count(b"K007") == 1
    assert b"6 lines could not be shown: internal error while showing a line: TypeError" in err
    if "--findings" not in form:
        assert out.count(b"Metadata") >= 6
    assert len(internal_errors) == 6


def test_ignored_or_not_failed_on_it_is_no_failure(
    monkeypatch: Patch, capsys: Any, internal_errors: list[Failure]
) -> None:
    break_payloads(monkeypatch)
    heartbeat = str(frames()[1]["frame"])
    assert main(["explain", "--fail-on", "never", heartbeat]) == 0
    assert internal_errors
    capsys.readouterr()
