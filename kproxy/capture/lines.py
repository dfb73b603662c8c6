"""Makes the trace lines of a capture: reassembles TCP connections and inspects those that carry Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from operator import length_hint
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.capture import Capture, Event, Reassembler
from kproxy.capture.kafka_flows import Dissector
from kproxy.capture.keylog import KeyLog
from kproxy.errors import UserError
from kproxy.inspection.inspector import Inspector
from kproxy.io.extras import install_command
from kproxy.trace.lines import Line

if TYPE_CHECKING:
    from kproxy.capture.tls import TlsDecryptor


class CaptureLines:
    """Iterates over the lines that a live proxy would have written. A bug in kproxy becomes a finding.

    Args:
        capture: The open capture.
        inspector: Makes the lines.
        ports: Kafka's ports, see `Dissector`.
        keylog: The path of a TLS key log.
        flow_ids: Ids of the TCP connections, see `Reassembler`. Inputs that share the iterator have distinct ids.

    After the last line, `packets` is the number of packets read, `skipped` the number of unusable ones by reason, and
    `dissector` has the counts of connections.

    Raises:
        UserError: The key log cannot be read; while iterating, TLS needs a package that is not installed.
    """

    def __init__(
        self,
        capture: Capture,
        inspector: Inspector,
        *,
        ports: frozenset[int] = frozenset(),
        keylog: str | None = None,
        flow_ids: Iterator[int] | None = None,
    ) -> None:
        self.packets = 0
        self.dissector = Dissector(inspector, ports=ports, decryptor=_decryptor_factory(keylog, capture))
        self._capture = capture
        self._inspector = inspector
        self._reassembler = Reassembler(flow_ids=flow_ids)

    @property
    def skipped(self) -> Mapping[str, int]:
        """Packets that could not be used, by reason."""
        return self._reassembler.skipped

    def __iter__(self) -> Iterator[Line]:
        return chain.from_iterable(self.batches())

    def batches(self) -> Iterator[list[Line]]:
        """Yield the lines in batches that were read together; a batch may be empty."""
        at, receive = 0, self._reassembler.receive_all
        for link_type, data, packets in self._capture.blocks():
            self.packets += len(packets)
            remaining = iter(packets)
            while length_hint(remaining):
                events: list[Event] = []
                failure: Exception | None = None
                try:
                    receive(link_type, data, remaining, events)
                except Exception as error:  # noqa: BLE001  # a bug in kproxy affects only the packet that triggers it
                    failure = error
                yield from self._lines(events)
                at = packets[-1 - length_hint(remaining)][0]
                if failure is not None:
                    yield self._inspector.fail("reassembling a packet", failure, at=at)
        try:
            events = list(self._reassembler.close())
        except Exception as error:  # noqa: BLE001
            yield self._inspector.fail("reassembling a packet", error, at=at)
            return
        yield from self._lines(events)

    def _lines(self, events: list[Event]) -> Iterator[list[Line]]:
        lines: list[Line] = []
        process = self.dissector.process
        for event in events:
            try:
                lines += process(event)
            except UserError:
                yield lines + self.dissector.flush()  # the lines of earlier events
                raise
            except Exception as error:  # noqa: BLE001  # it affects only the TCP connection
                lines += self._drop_connection(event, error)
        yield lines + self.dissector.flush()

    def _drop_connection(self, event: Event, error: Exception) -> list[Line]:
        failure_lines = self._inspector.fail("dissecting a TCP connection", error, at=event.at)
        return failure_lines + self.dissector.drop(event)


def stem_of(name: str) -> str:
    """Return the prefix of a capture's connection ids: its file name without the suffixes of captures."""
    stem = Path(name).name
    for suffix in (".gz", ".zst", ".pcap", ".pcapng", ".cap"):
        stem = stem.removesuffix(suffix)
    return stem


def _decryptor_factory(keylog_path: str | None, capture: Capture) -> Callable[[], TlsDecryptor | None]:
    """Return a function that makes TLS decryptors with the keys from a key log and from a pcapng file."""
    keys = KeyLog()
    if keylog_path is not None:
        try:
            keys.add(Path(keylog_path).read_text(encoding="ascii", errors="replace"))
        except OSError as error:
            raise UserError(f"{keylog_path}: {error.strerror}") from None

    def make_decryptor() -> TlsDecryptor | None:
        if keylog_path is None and not capture.tls_keys:
            return None
        try:
            from kproxy.capture.tls import TlsDecryptor  # it needs an optional package
        except ImportError:
            raise UserError(f"TLS decryption needs the cryptography package: {install_command('tls')}") from None
        keys.add(capture.tls_keys)
        return TlsDecryptor(keys)

    return make_decryptor
