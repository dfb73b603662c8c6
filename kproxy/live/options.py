"""What the inspector's process does with the traffic."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dissectors.limits import NO_VALUES, Values
from kproxy.control.control_socket import ControlSocket
from kproxy.inspection.inspector import Inspector
from kproxy.outputs.finding_selection import Selection
from kproxy.outputs.line_outputs import OutputOptions, output_for
from kproxy.proxy import tap_messages
from kproxy.trace.connection_ids import run_name
from kproxy.trace.lines import Detail
from kproxy.trace.state import TraceState

if TYPE_CHECKING:
    from kproxy.inspection.record_values import RecordValues

#: Seconds within which a proxy ends, whatever its inspector does.
END_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class InspectorOptions:
    """What the inspector's process does with the traffic.

    Attributes:
        output: How the terminal shows the traffic.
        selection: Which findings are shown.
        detail: How much of each frame the trace contains.
        directory: The directory of the trace; None writes no trace.
        compress: Whether the trace is compressed.
        trace_state: State shared with the relay: lost lines, and whether the trace can be written.
        control: The socket for viewers.
        built_in: Whether the upstream is the built-in broker.
        metrics: Whether to count for Prometheus, which needs the extra ``metrics``.
        record_values: Decodes keys and values of records. Its source of schemas must not wait for a network.
        workers: The number of inspecting processes; with 1, the process that writes the lines also inspects.
        limits: The limits of rules that the user has set.
        end_timeout: Seconds for the inspector to finish after the relay has ended.
    """

    output: OutputOptions
    selection: Selection
    detail: Detail
    directory: Path | None = None
    compress: bool = False
    control: ControlSocket | None = None
    built_in: bool = False
    metrics: bool = False
    record_values: RecordValues | None = None
    workers: int = 1
    trace_state: TraceState = field(default_factory=TraceState)
    end_timeout: float = END_TIMEOUT_S
    limits: Values = field(default_factory=lambda: NO_VALUES)

    def inspector(self, hello: tap_messages.Hello, *, partial: bool = False) -> Inspector:
        """Make the inspector for all connections of a relay, or with `partial`, for some of them."""
        detail = output_for(self.output, sys.stdout, self.selection).detail(self.detail)
        return Inspector(
            run_name(node_name(hello.node), hello.pid, hello.started),
            detail,
            record_values=self.record_values,
            withholds_records=self.record_values is None and detail is not Detail.RAW,
            partial=partial,
            limits=self.limits,
        )

    @property
    def encodings(self) -> tuple[Detail, ...]:
        """The details at which consumers need every line of a frame encoded; empty if one needs decoded bodies.

        Filters and rows with bodies read values as they were decoded, e.g. bytes. Other consumers parse the encoding.
        """
        if self.output.filter is not None or self.output.shows_bodies:
            return ()
        needs_detail = self.directory is not None or self.output.json or self.record_values is not None
        needs_summary = self.control is not None or not needs_detail
        return (self.detail,) * needs_detail + (Detail.SUMMARY,) * needs_summary


def node_name(host: str) -> str:
    """Return the name of this proxy for connection ids and file names."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", host) or "node"
