"""Functions that return the lines, findings and causes in a capture file, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kproxy.capture import Reassembler, open_capture
from kproxy.capture.kafka_flows import Dissector
from kproxy.capture.keylog import KeyLog
from kproxy.capture.tls import TlsDecryptor
from kproxy.inspection.inspector import Inspector
from kproxy.inspection.record_values import RecordValues
from kproxy.trace.lines import Detail, FindingEntry, FindingLine, Line, RequestLine, ResponseLine
from kproxy.verdict.causes import Causes

DATA = Path(__file__).parents[1] / "data"


def lines_of(
    path: Path,
    *,
    detail: Detail = Detail.SUMMARY,
    ports: frozenset[int] = frozenset(),
    record_values: RecordValues | None = None,
) -> Iterator[Line]:
    """Yield the trace lines of a capture, decrypted with a key log next to it, if any; `ports` is as in `Dissector`."""
    key_file = path.with_name(path.name.removesuffix(".pcap.gz") + ".keys")
    has_keys = key_file.exists()
    keys = KeyLog()
    if has_keys:
        keys.add(key_file.read_text())
    inspector = Inspector(path.name, detail, record_values=record_values)
    dissector = Dissector(inspector, ports=ports, decryptor=lambda: TlsDecryptor(keys) if has_keys else None)
    reassembler = Reassembler()
    with open_capture(path) as capture:
        for packet in capture:
            for event in reassembler.receive(packet):
                yield from dissector.process(event)
            yield from dissector.flush()
    for event in reassembler.close():
        yield from dissector.process(event)


def causes_of(
    path: Path, *, detail: Detail = Detail.SUMMARY, ports: frozenset[int] = frozenset()
) -> Iterator[tuple[Line, FindingEntry | FindingLine]]:
    """Yield each finding in a capture with its line, except consequences of other findings (`kproxy.verdict`)."""
    causes = Causes()
    for line in lines_of(path, detail=detail, ports=ports):
        causes.add(line)
    root_codes = {cause.finding.code for cause in causes.verdict()}
    for line, finding in findings_of(path, detail=detail, ports=ports):
        if finding.code in root_codes:
            yield line, finding


def findings_of(
    path: Path, *, detail: Detail = Detail.SUMMARY, ports: frozenset[int] = frozenset()
) -> Iterator[tuple[Line, FindingEntry | FindingLine]]:
    """Yield each finding in a capture with its line."""
    for line in lines_of(path, detail=detail, ports=ports):
        if isinstance(line, FindingLine):
            yield line, line
        elif isinstance(line, RequestLine | ResponseLine):
            for finding in line.findings:
                yield line, finding
