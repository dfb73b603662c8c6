"""The summary at the end of a run, collected in bounded memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dissectors.findings import Severity
from kproxy.counting.frame_figures import FrameFigures, merge_figures, new_figures
from kproxy.counting.percentiles import Histogram
from kproxy.outputs.coverage import counts_text
from kproxy.trace.formatting import duration, safe, size
from kproxy.trace.lines import FRAME_LINES, CloseLine, FindingLine, GapLine, Line, OpenLine, RequestLine, ResponseLine
from kproxy.verdict.causes import Causes

#: The maximum number of causes to show.
MAX_CAUSES = 20

_STYLES = {"error": "bold red", "warning": "yellow"}


@dataclass(slots=True)
class _Api:
    frames: FrameFigures[Histogram] = field(default_factory=new_figures)
    versions: set[int] = field(default_factory=set)


class RunSummary:
    """Counts lines; `show` prints the result. Without `causes`, findings are only counted."""

    def __init__(self, causes: Causes | None = None) -> None:
        self.frames = 0
        self.connections = 0
        #: The open connections. After a worker restarts, each of its connections gets a second open line.
        self._open: set[str] = set()
        self.gap_bytes = 0
        self.gap_frames = 0
        self.causes = causes
        self.findings: Counter[tuple[str, str, str]] = Counter()
        self.repeated: Counter[str] = Counter()
        self.not_decoded = 0
        self._apis: dict[str, _Api] = {}
        self._clients: Counter[str] = Counter()

    def add(self, line: Line) -> None:
        """Count one line of the trace."""
        if self.causes is not None:
            self.causes.add(line)
        if isinstance(line, FRAME_LINES):
            self._add_frame(line)
        elif isinstance(line, OpenLine):
            self.connections += line.connection_id not in self._open
            if len(self._open) < 100_000:
                self._open.add(line.connection_id)
        elif isinstance(line, FindingLine):
            self.findings[line.code, line.name, line.severity] += 1
        elif isinstance(line, GapLine):
            self.gap_bytes += line.bytes
            self.gap_frames += line.frames
        elif isinstance(line, CloseLine):
            self._open.discard(line.connection_id)
            for repeat in line.repeated:
                self.repeated[repeat.code] += repeat.count

    def merge(self, other: RunSummary) -> None:
        """Add the frames that another summary has counted."""
        self.frames += other.frames
        self.not_decoded += other.not_decoded
        self.findings += other.findings
        for name, counts in other._apis.items():
            api = self._apis.setdefault(name if name in self._apis or len(self._apis) < 500 else "(others)", _Api())
            api.frames = merge_figures((api.frames, counts.frames))
            api.versions |= counts.versions
        for client, count in other._clients.items():
            if client in self._clients or len(self._clients) < 1000:
                self._clients[client] += count

    def _add_frame(self, line: RequestLine | ResponseLine) -> None:
        self.frames += 1
        if line.not_decoded:
            self.not_decoded += 1
        for finding in line.findings:
            self.findings[finding.code, finding.name, finding.severity] += 1
        name = line.api or "(no request known)"
        api = self._apis.get(name)
        if api is None:
            # Unknown API keys come from the network: their names must not fill the memory.
            api = self._apis.setdefault(name if len(self._apis) < 500 else "(others)", _Api())
        if line.api_version is not None and len(api.versions) < 100:
            api.versions.add(line.api_version)
        if isinstance(line, RequestLine):
            api.frames.add_request(line)
            if line.client_id and (line.client_id in self._clients or len(self._clients) < 1000):
                self._clients[line.client_id] += 1
        else:
            api.frames.add_response(line)

    def show(self, console: Console, *, files: int | None = None) -> None:
        """Print the summary: a table of APIs, then findings and gaps. `files` is the number of inputs."""
        counts = {} if files is None else {"files": files}
        counts |= {"connections": self.connections, "frames": self.frames}
        console.print(counts_text(counts), highlight=False)
        if self._apis:
            console.print(self._api_table())
        for row in self._cause_rows():
            console.print(row, soft_wrap=True, highlight=False)
        repeated = Counter(self.repeated)
        for (code, name, severity), report_count in sorted(self.findings.items()):
            count = report_count + repeated.pop(code, 0)
            if severity == Severity.INFO:
                console.print(f"{safe(code)} {safe(name)}", f"{count}x", style="blue", highlight=False, markup=False)
        if self.not_decoded:
            console.print(
                f"{self.not_decoded} frames not decoded (the trace gives the reason in not_decoded)", highlight=False
            )
        if self.gap_bytes or self.gap_frames:
            frames = f", {self.gap_frames} frames," if self.gap_frames else ""
            console.print(f"{size(self.gap_bytes)}{frames} not inspected (gap lines give the reason)", style="yellow",
                          highlight=False)  # fmt: skip
        if self._clients:
            names = ", ".join(safe(name) for name, _ in self._clients.most_common(5))
            more_text = f" and {len(self._clients) - 5} more" if len(self._clients) > 5 else ""
            console.print(f"clients: {names}{more_text}", highlight=False, markup=False)

    def _cause_rows(self) -> Iterator[Text]:
        """Yield a row for each cause that is more severe than info, the most urgent first, with its hint."""
        sorted_causes = () if self.causes is None else self.causes.verdict()
        causes = [cause for cause in sorted_causes if cause.finding.severity != Severity.INFO]
        for cause in causes[:MAX_CAUSES]:
            finding = cause.finding
            head = f"{finding.severity}: {safe(finding.code)} {safe(finding.name)}"
            yield Text.assemble(
                (head, _STYLES.get(finding.severity, "")), f": {safe(finding.message)}", (f"  ({cause.seen})", "dim")
            )
            if finding.hint:
                yield Text(f"  hint: {safe(finding.hint)}", style="dim")
            if cause.consequences:
                codes = ", ".join(
                    f"{consequence.finding.code} {consequence.finding.name}" for consequence in cause.consequences
                )
                yield Text(f"  therefore also: {safe(codes)}", style="dim")
        if len(causes) > MAX_CAUSES:
            yield Text(f"and {len(causes) - MAX_CAUSES} more; the trace has all", style="dim")

    def _api_table(self) -> Table:
        table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
        table.add_column("API", no_wrap=True)
        table.add_column("versions")
        for heading in ("requests", "responses", "errors", "p50", "p99", "bytes"):
            table.add_column(heading, justify="right")
        for name, api in sorted(self._apis.items(), key=lambda item: -item[1].frames.requests):
            frames = api.frames
            table.add_row(
                Text(safe(name)),
                _ranges_text(sorted(api.versions)),
                str(frames.requests),
                str(frames.responses),
                str(frames.errors.responses or ""),
                *map(duration, frames.latencies.percentiles(0.5, 0.99)),
                size(frames.request_bytes + frames.response_bytes),
            )
        return table


def _ranges_text(numbers: list[int]) -> str:
    """Return sorted numbers as ranges, e.g. ``0,3-5``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1].append(number)
        else:
            parts.append([number])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
