"""Exchanges can be copied as text, and rows can be saved as a trace or a capture."""

import base64
import errno
import json
import stat
import struct
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from kproxy.browse.export import copies, trace
from kproxy.browse.export.capture import NoBytesError, save_capture
from kproxy.browse.export.trace import save
from kproxy.browse.rows.exchange import Exchange
from kproxy.browse.session import BrowseSession, Note
from kproxy.capture import open_capture
from kproxy.filters import parse
from kproxy.trace.encoding import encode_line, parse_line
from kproxy.trace.lines import CloseLine, Detail, Line, OpenLine, RequestLine, ResponseLine
from tests.kproxy.browse.sessions import LinesSource, read, request, response, session_of, session_of_capture
from tests.kproxy.capture_results import DATA, lines_of

BUG = DATA / "bugs" / "metadata-throttle-first--java.pcap.gz"


@pytest.fixture(scope="module")
def session() -> BrowseSession:
    return session_of_capture(BUG)


def exchange_with(session: BrowseSession, code: str) -> Exchange:
    for row in range(session.index.end):
        exchange = session.exchange(row)
        if exchange is not None and any(finding.code == code for finding in exchange.findings):
            return exchange
    raise AssertionError(code)


@pytest.mark.slow
def test_copied_command_reports_the_findings_of_the_trace(session: BrowseSession) -> None:
    exchange = exchange_with(session, "L005")
    command = copies.as_command(exchange, request=False)
    assert command is not None
    process = subprocess.run([sys.executable, "-m", *command.split(), "--json"], capture_output=True, check=False)
    assert [finding["code"] for finding in json.loads(process.stdout)["findings"]] == ["L005"]
    request_command = copies.as_command(exchange, request=True)
    assert request_command is not None
    assert (
        subprocess.run([sys.executable, "-m", *request_command.split()], capture_output=True, check=False).returncode
        == 0
    )


def test_copied_command_quotes_the_name_of_an_api() -> None:
    response_line = response(request(1), api="Fetch; rm -rf ~", frame="AAAABAAAAAE=")
    command = copies.as_command(Exchange(0, 1, None, response_line), request=False)
    assert command == "kproxy explain --api 'Fetch; rm -rf ~' --version 12 0000000400000001"


def test_copied_hex_is_the_frame(session: BrowseSession) -> None:
    exchange = exchange_with(session, "L005")
    assert exchange.response is not None
    text = copies.as_hex(exchange.response)
    assert text is not None
    assert text.startswith("00 00 00 54 00 00 00 02")
    assert len(bytes.fromhex(text)) == exchange.response.size


def test_copied_json_contains_the_bodies(session: BrowseSession) -> None:
    exchange = json.loads(copies.as_json(exchange_with(session, "L005")))
    assert exchange["request"]["body"]["topics"] == [{"name": "t"}]
    assert exchange["response"]["body"]["brokers"][0]["host"] == "127.0.0.1"
    assert "frame" not in exchange["response"]


def test_copied_markdown_contains_the_finding_and_escapes_hostile_text(session: BrowseSession) -> None:
    text = copies.as_markdown(exchange_with(session, "L005"))
    assert "### Metadata v2" in text
    assert "do not write throttle_time_ms in version 2" in text
    assert "^^^^^^^^^^^" in text
    hostile = request(1, client_id="`</details>\x1b[31m", body={"name": "```\nrm"})
    escaped_text = copies.as_markdown(Exchange(0, 1, hostile, response(hostile)))
    assert "\x1b" not in escaped_text
    assert "````json" in escaped_text


def test_exchange_without_a_frame_has_no_hex_and_no_command() -> None:
    exchange = Exchange(0, 1, request(1))
    assert copies.as_hex(request(1)) is None
    assert copies.as_command(exchange, request=True) is None
    assert copies.as_command(exchange, request=False) is None
    assert "size" in copies.as_json(exchange)


def test_visible_rows_are_saved_with_their_notes(session: BrowseSession, tmp_path: Path) -> None:
    session.visible.choose(parse("finding=L005 and got~'bytes'"))
    read(session)
    session.annotate(session.visible[0], Note(text="here"))
    path = tmp_path / "saved.jsonl"
    assert list(save(session, path))[-1] == len(session.visible) + 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lines = [parse_line(line) for line in path.read_bytes().splitlines()]
    assert [type(line) for line in lines] == [OpenLine, RequestLine, ResponseLine, CloseLine]
    assert lines[1].note == "here"
    saved_session = session_of(lines)
    assert saved_session.notes[1].text == "here"
    session.visible.choose(None)
    with pytest.raises(FileExistsError):
        list(save(session, path))
    assert len(path.read_bytes().splitlines()) == 4


def test_partly_invalid_line_is_saved_unchanged(tmp_path: Path) -> None:
    source = LinesSource([request(1)])
    invalid_line = encode_line(request(2)).replace(b'"size"', b'"body":[],"size"')
    source.spool.append(invalid_line)
    session = BrowseSession(source)
    read(session)
    session.annotate(0, Note(marked=True))
    session.annotate(1, Note(marked=True))
    list(save(session, tmp_path / "saved.jsonl"))
    first, second = (tmp_path / "saved.jsonl").read_bytes().splitlines(keepends=True)
    assert (parse_line(first).marked, second) == (True, invalid_line)


def test_failed_save_leaves_no_file(session: BrowseSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(trace, "_write", fail)
    path = tmp_path / "saved.jsonl"
    with pytest.raises(OSError, match="no room"):
        list(save(session, path))
    assert not path.exists()


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "magic"), [("pcap", "4d3cb2a1"), ("pcapng", "0a0d0d0a")])
def test_saved_capture_contains_the_frames_with_their_times(tmp_path: Path, suffix: str, magic: str) -> None:
    path = DATA / "pcap" / "kcat-4.3.1.pcap.gz"
    session = session_of_capture(path)
    saved_path = tmp_path / f"saved.{suffix}"
    assert list(save_capture(session, saved_path))[-1] > 100
    assert stat.S_IMODE(saved_path.stat().st_mode) == 0o600
    assert saved_path.read_bytes()[:4].hex() == magic

    def frames(lines: Iterable[Line]) -> list[tuple[object, ...]]:
        frame_lines = (line for line in lines if isinstance(line, RequestLine | ResponseLine))
        return sorted((line.client, line.ts, line.api, line.correlation_id, line.frame) for line in frame_lines)

    saved = list(lines_of(saved_path, detail=Detail.RAW))
    assert frames(saved) == frames(lines_of(path, detail=Detail.RAW))
    assert not [line for line in saved if line.__struct_config__.tag == "gap"]


def _ones_complement_sum(data: bytes) -> int:
    """Return the ones' complement sum of 16-bit words (RFC 1071)."""
    total = 0
    for (word,) in struct.iter_unpack(">H", data + bytes(len(data) % 2)):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


def test_saved_capture_of_selected_rows_has_no_gaps(tmp_path: Path) -> None:
    session = session_of_capture(DATA / "pcap" / "kcat-4.3.1.pcap.gz")
    session.visible.choose(parse("api=Fetch"))
    read(session)
    list(save_capture(session, tmp_path / "saved.pcap.gz"))
    saved = list(lines_of(tmp_path / "saved.pcap.gz"))
    assert {line.api for line in saved if isinstance(line, RequestLine | ResponseLine)} == {"Fetch"}
    assert not [line for line in saved if line.__struct_config__.tag == "gap"]


def test_long_frames_and_unusual_addresses_can_be_saved_as_a_capture(tmp_path: Path) -> None:
    data = b"\0\0\xc3\x50" + bytes(50_000)
    frame = base64.b64encode(data).decode()
    endpoints = [
        ("[::1]:5", "10.0.0.1:9092"),
        ("unix:/a", "kafka.example:19092"),
        ("10.0.0.5:6", "[fe80::1%eth0]:9092"),
    ]
    lines = [
        request(number, frame=frame, client=client, server=server, connection_id=f"n-{number}")
        for number, (client, server) in enumerate(endpoints)
    ]
    assert list(save_capture(session_of(lines), tmp_path / "saved.pcap")) == [3]
    with open_capture(tmp_path / "saved.pcap") as capture:
        packets = list(capture)
    assert len(packets) == 3 * (3 + 4)
    for packet in packets:
        data = bytes(packet.data)
        is_ipv4 = data[0] >> 4 == 4
        ip, endpoints = data[: 20 if is_ipv4 else 40], data[12:20] if is_ipv4 else data[8:40]
        tcp = data[len(ip) :]
        assert _ones_complement_sum(endpoints + struct.pack(">IHH", len(tcp), 0, 6) + tcp) == 0xFFFF
        assert not is_ipv4 or _ones_complement_sum(ip) == 0xFFFF
    with pytest.raises(NoBytesError):
        list(save_capture(session_of([request(0)]), tmp_path / "none.pcap"))
    assert not (tmp_path / "none.pcap").exists()
