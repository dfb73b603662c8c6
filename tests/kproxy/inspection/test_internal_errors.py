"""A bug in kproxy that one frame triggers is reported with that frame and affects nothing else."""

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
from tests.kproxy.stories import StoryPlayer

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


def fail_when(function: Callable[..., Any], condition: Callable[..., bool]) -> Callable[..., Any]:
    """Return `function`, wrapped to raise an error if `condition` is true for its arguments."""

    def fail_or_call(*args: Any, **kwargs: Any) -> Any:
        if condition(*args):
            raise TypeError("unhashable type: 'slice'")
        return function(*args, **kwargs)

    return fail_or_call


def break_decoder(patch: Patch) -> None:
    layouts = message.api_layouts(ApiKey.HEARTBEAT, 0)
    assert layouts is not None
    patch.setattr(layouts.request_kind, "decoder", fail_when(len, lambda _: True))


def break_rule(patch: Patch) -> None:
    def check(event: RequestReceived, _: object) -> Any:
        if event.message.api == "Heartbeat":
            raise TypeError("unhashable type: 'slice'")
        yield from ()

    rule = rules.Rule("Z999", "z", rules.Severity.INFO, None, "0", (), (), check)
    original_dispatch = rules._dispatch
    patch.setattr(
        rules, "_dispatch",
        lambda event, *args: (
            *((rule,) if isinstance(event, RequestReceived) else ()), *original_dispatch(event, *args)
        ),
    )  # fmt: skip


def break_tracker(patch: Patch) -> None:
    def is_heartbeat_event(_: object, event: object, __: object) -> bool:
        return isinstance(event, RequestReceived) and event.message.api == "Heartbeat"

    patch.setattr(InFlight, "observe", fail_when(InFlight.observe, is_heartbeat_event))


def break_line(patch: Patch) -> None:
    patch.setattr(frame_lines.summary, "group_id", fail_when(frame_lines.summary.group_id, is_heartbeat))


def is_heartbeat(message: Any, *_: object) -> bool:
    return bool(message.is_request and message.api == "Heartbeat" and message.body)


def inspect_story(story: str) -> list[Line]:
    player = StoryPlayer(Inspector("story"))
    player.play(story)
    return player.lines


@pytest.mark.parametrize("break_part", [break_decoder, break_rule, break_tracker, break_line])
def test_internal_error_is_reported_with_its_frame_only(
    monkeypatch: Patch, internal_errors: list[Failure], break_part: Callable[[Patch], None]
) -> None:
    expected = inspect_story(STORY)
    break_part(monkeypatch)
    lines = inspect_story(STORY)
    assert len(internal_errors) == 1
    assert [type(line) for line in lines] == [type(line) for line in expected]
    [index] = [number for number, line in enumerate(lines) if "internal-error" in repr(line)]
    line = lines[index]
    assert isinstance(line, RequestLine)
    assert (line.api, line.correlation_id, line.size) == ("Heartbeat", 2, expected[index].size)  # type: ignore[union-attr]
    reported = next(finding for finding in line.findings if finding.code == "K007")
    assert reported.message.startswith("internal error while ")
    assert reported.message.endswith(": TypeError: unhashable type: 'slice'")
    assert reported.severity == "error"
    assert reported.hint is not None
    assert "please report" in reported.hint
    assert "SHA-256" in reported.hint
    assert reported.got is not None
    assert "test_internal_errors.py:" in reported.got
    # The contents are missing only if they could not be read; the response is paired either way.
    assert bool(line.not_decoded) == (break_part in (break_decoder, break_line))
    response_line = lines[index + 1]
    assert isinstance(response_line, ResponseLine)
    assert (response_line.api, response_line.latency_us, response_line.not_decoded) == ("Heartbeat", 1000, None)
    assert lines[:index] + lines[index + 2 :] == expected[:index] + expected[index + 2 :]


def test_repeated_internal_error_is_reported_once_and_counted(
    monkeypatch: Patch, internal_errors: list[Failure]
) -> None:
    break_tracker(monkeypatch)
    lines = inspect_story(3 * STORY + 2 * STORY.replace("> ", "2> ").replace("< ", "2< ") + "close\n2 close")
    assert len(internal_errors) == 5
    assert sum("K007" in [finding.code for finding in getattr(line, "findings", ())] for line in lines) == 1
    close_lines = [line for line in lines if isinstance(line, CloseLine)]
    assert [
        [(finding.code, finding.count) for finding in line.repeated if finding.code == "K007"] for line in close_lines
    ] == [
        [("K007", 2)],
        [("K007", 2)],
    ]


def test_framing_error_loses_its_bytes_and_inspection_continues(
    monkeypatch: Patch, internal_errors: list[Failure]
) -> None:
    monkeypatch.setattr(Framer, "push", fail_when(Framer.push, lambda _, data: b"second" in data))
    inspector = Inspector("t")
    lines = inspector.open(1, "10.0.0.1:1", "10.0.0.2:9092", at=0)
    frames = [request("Metadata", 0, {"topics": [{"name": name}]}) for name in ("first", "second", "third")]
    for at, frame in enumerate(frames):
        lines += inspector.receive_data(1, Direction.REQUEST, frame, at=at)
    lines += inspector.close(1, at=9)
    assert len(internal_errors) == 1
    requests = [line for line in lines if isinstance(line, RequestLine)]
    assert [(line.topics[0].topic, line.offset) for line in requests] == [
        ("first", 0),
        ("third", len(frames[0] + frames[1])),
    ]
    [gap] = [line for line in lines if isinstance(line, GapLine)]
    assert (gap.direction, gap.bytes) == ("request", len(frames[1]))
    assert next(line.code for line in lines if isinstance(line, FindingLine)) == "K007"


@pytest.mark.parametrize("api", ["SaslAuthenticate", "Produce", "Metadata"])
def test_omits_exception_text_that_may_contain_a_secret(
    monkeypatch: Patch, internal_errors: list[Failure], api: str
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("hunter2")

    monkeypatch.setattr(InFlight, "observe", fail)
    inspector = Inspector("t")
    inspector.open(1, "10.0.0.1:1", "10.0.0.2:9092", at=0)
    lines = inspector.receive_data(1, Direction.REQUEST, request(api, 0, {}), at=0)
    assert ("hunter2" in repr(lines)) == ("SHA-256" in repr(lines)) == (api == "Metadata")
    assert "ValueError" in repr(lines)
    assert internal_errors


# How the commands handle internal errors


def frames() -> list[dict[str, object]]:
    heartbeat = request("Heartbeat", 0, {"group_id": "g", "generation_id": 1, "member_id": "m"})
    metadata = request("Metadata", 0, {"topics": [{"name": "a"}]})
    return [{"id": number, "frame": frame.hex()} for number, frame in enumerate((metadata, heartbeat, metadata))]


def break_payloads(patch: Patch) -> None:
    patch.setattr(embedded, "presentable_body", fail_when(embedded.presentable_body, is_heartbeat))


def break_explain(patch: Patch) -> None:
    """Fail outside the part of `explain` that handles errors itself."""
    patch.setattr(explaining, "read_request", fail_when(explaining.read_request, lambda frame: b"\0\x0c" in frame[:6]))


@pytest.mark.parametrize("break_part", [break_decoder, break_rule, break_tracker, break_payloads, break_explain])
def test_explain_json_continues_after_an_internal_error(
    monkeypatch: Patch,
    capfdbinary: Any,
    internal_errors: list[Failure],
    break_part: Callable[[Patch], None],
) -> None:
    break_part(monkeypatch)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(json.dumps(frame) + "\n" for frame in frames())))
    assert main(["explain", "--json", "-"]) == 1
    sys.stdout.flush()
    first, failed_entry, last = (json.loads(line) for line in capfdbinary.readouterr().out.splitlines())
    assert first | {"id": 2} == last
    assert last["fields"]
    assert failed_entry["id"] == 1
    [finding] = [finding for finding in failed_entry["findings"] if finding["code"] == "K007"]
    assert "TypeError" in finding["message"]
    assert ("error" in failed_entry) == (break_part not in (break_rule, break_tracker))
    assert internal_errors


def test_explain_continues_after_an_internal_error(
    monkeypatch: Patch, capsys: Any, internal_errors: list[Failure]
) -> None:
    for break_part in (break_payloads, break_explain):
        break_part(monkeypatch)
        assert main(["explain", "".join(str(frame["frame"]) for frame in frames())]) == 1
        out, err = capsys.readouterr()
        assert out.count("Metadata v0 request") == 2
        assert "TypeError" in out + err
    assert internal_errors


OUTPUT_OPTIONS = [
    [], ["--json"], ["--fields", "api,findings.code,code"], ["--findings"], ["--findings", "--format", "sarif"],
    ["--findings", "--format", "junit"], ["--findings", "--json"], ["--html"], ["-v"],
]  # fmt: skip


@pytest.mark.parametrize("output_options", OUTPUT_OPTIONS, ids=" ".join)
def test_dissect_continues_after_an_error_in_a_frame(
    monkeypatch: Patch, capfdbinary: Any, internal_errors: list[Failure], output_options: list[str]
) -> None:
    original_topics = frame_lines.summary.topics
    messages = []

    def topics_or_fail(message: Any, *args: Any, **options: Any) -> Any:
        messages.append(message)
        if len(messages) == 20:
            raise TypeError("unhashable type: 'slice'")
        return original_topics(message, *args, **options)

    monkeypatch.setattr(frame_lines.summary, "topics", topics_or_fail)
    assert main(["dissect", *output_options, str(CAPTURE)]) == 1
    assert len(messages) > 50
    out = capfdbinary.readouterr().out
    assert b"K007" in out or output_options == ["--html"]  # the page contains its lines compressed
    assert len(internal_errors) == 1


def break_capture(patch: Patch, failing_part: str) -> None:
    count = 0

    def is_tenth_call(*_: object) -> bool:
        nonlocal count
        count += 1
        return count == 10

    if failing_part == "packet":
        patch.setattr(tcp, "BytesCaptured", fail_when(tcp.BytesCaptured, is_tenth_call))
    else:
        patch.setattr(Dissector, "process", fail_when(Dissector.process, is_tenth_call))


@pytest.mark.parametrize("failing_part", ["packet", "connection"])
def test_dissect_continues_after_an_error_in_a_packet_or_connection(
    monkeypatch: Patch, capsys: Any, internal_errors: list[Failure], failing_part: str
) -> None:
    break_capture(monkeypatch, failing_part)
    assert main(["dissect", str(CAPTURE)]) == 1
    out = capsys.readouterr().out
    assert out.count("K007") == 1
    assert out.count("Metadata") > 5
    assert len(internal_errors) == 1


@pytest.mark.parametrize("failing_part", ["packet", "connection"])
def test_spark_decodes_to_the_same_lines_as_dissect_after_an_error(
    monkeypatch: Patch, capfdbinary: Any, internal_errors: list[Failure], failing_part: str
) -> None:
    with monkeypatch.context() as patch:
        break_capture(patch, failing_part)
        main(["dissect", "--json", str(CAPTURE)])
    sys.stdout.flush()
    dissected = capfdbinary.readouterr().out
    break_capture(monkeypatch, failing_part)
    decoded = [*decode(io.BytesIO(CAPTURE.read_bytes()), str(CAPTURE), CaptureOptions())]
    assert [json.loads(line) for line in decoded] == [json.loads(line) for line in dissected.splitlines()]
    assert dissected.count(b"K007") == 1
    assert len(internal_errors) == 2


@pytest.mark.parametrize("output_options", [[], ["--json"], ["--findings"], ["--fields", "api,code"]], ids=" ".join)
def test_dissect_continues_after_an_error_in_a_trace_line(
    monkeypatch: Patch, capfdbinary: Any, internal_errors: list[Failure], tmp_path: Path, output_options: list[str]
) -> None:
    data = bytearray()
    for line in inspect_story(3 * STORY):
        append_line(line, data)
    path = tmp_path / "story.jsonl"
    path.write_bytes(data)

    def is_heartbeat_call(*args: Any) -> bool:
        return any(getattr(argument, "api", None) == "Heartbeat" for argument in args)

    monkeypatch.setattr(text.TextOutput, "write", fail_when(text.TextOutput.write, is_heartbeat_call))
    monkeypatch.setattr(Causes, "add", fail_when(Causes.add, is_heartbeat_call))
    monkeypatch.setattr("kproxy.outputs.line_outputs.append_line", fail_when(append_line, is_heartbeat_call))
    append_lines_or_fail = fail_when(append_lines, lambda lines, _: any(map(is_heartbeat_call, lines)))
    monkeypatch.setattr("kproxy.outputs.line_outputs.append_lines", append_lines_or_fail)
    monkeypatch.setattr(ColumnReader, "__call__", fail_when(ColumnReader.__call__, is_heartbeat_call))
    assert main(["dissect", *output_options, str(path)]) == 1
    out, err = capfdbinary.readouterr()
    assert out.count(b"K007") == 1
    assert b"6 lines could not be shown: internal error while showing a line: TypeError" in err
    if "--findings" not in output_options:
        assert out.count(b"Metadata") >= 6
    assert len(internal_errors) == 6


def test_internal_error_respects_fail_on_never(monkeypatch: Patch, capsys: Any, internal_errors: list[Failure]) -> None:
    break_payloads(monkeypatch)
    heartbeat = str(frames()[1]["frame"])
    assert main(["explain", "--fail-on", "never", heartbeat]) == 0
    assert internal_errors
    capsys.readouterr()
