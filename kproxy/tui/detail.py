"""One exchange in detail: its findings, the fields of request and response, and the bytes of one of them."""

from __future__ import annotations

import msgspec
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from kproxy.browse.fields.detail import FrameDetail, build_frame_detail
from kproxy.browse.fields.field import FieldView
from kproxy.browse.rows.exchange import Exchange
from kproxy.control.protocol import LateResponse
from kproxy.inspection.event_lines import excerpt
from kproxy.outputs.findings import confidence_text, excerpt_bytes, sentence
from kproxy.trace.formatting import RANK, duration, safe, size
from kproxy.trace.lines import FindingEntry, FindingLine, RepeatedFinding, ResponseLine
from kproxy.trace.time_display import TimeDisplay
from kproxy.tui.hex_view import HexView
from kproxy.tui.styled_text import full_finding, styled, truncate_lines
from kproxy.tui.tree import FieldTree
from kproxy.tui.value_window import ValueWindow

#: Lines larger than this many bytes are read in a thread, so that keys stay responsive.
_LARGE_BYTES = 1 << 15

_MAX_ERRORS = 5

#: Minimum number of screen lines for showing findings in full, with fields and bytes below.
_FULL_FINDINGS_LINES = 28

#: Keys of an event that its summary or its row already shows.
_IN_SUMMARY = {"v", "kind", "ts", "connection_id"}


class SidePane(Vertical):
    """The fields of a request or a response."""

    DEFAULT_CSS = """
    SidePane { width: 1fr; }
    SidePane > .title {
        height: 1; background: $panel; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis;
    }
    SidePane.active > .title { background: $primary 50%; text-style: bold; }
    SidePane > FieldTree { height: 1fr; }
    """

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._title = name
        self.side: FrameDetail | None = None

        self._title_bar = Static(classes="title")
        self.tree_of_fields = FieldTree()

    def compose(self) -> ComposeResult:
        """Create the title and the tree."""
        yield self._title_bar
        yield self.tree_of_fields

    def show(self, detail: FrameDetail | None, empty_text: str) -> None:
        """Show one side, or if it is missing, the reason `empty_text`."""
        self.side = detail
        title = Text(no_wrap=True, overflow="ellipsis")
        title.append(self._title, "bold")
        if detail is None:
            title.append(f"  {empty_text}", "dim")
        else:
            line = detail.line
            title.append(f"  {safe(line.api)} v{line.api_version}" if line.api else "  ?")
            title.append(f"  id {line.correlation_id}  {size(line.size)}", "dim")
            if detail.deviation:
                title.append("  as written: " + safe(detail.deviation), "yellow")
            elif detail.missing:
                title.append("  " + safe(detail.missing), "yellow")
        self._title_bar.update(title, layout=False)
        self.tree_of_fields.show(detail.fields if detail is not None else [])


class DetailPane(Vertical):
    """The exchange under the cursor, below the list or full-screen."""

    DEFAULT_CSS = """
    DetailPane { height: 1fr; border-top: solid $panel; }
    DetailPane > #wrong { height: auto; max-height: 35%; background: $surface; padding: 0 1; }
    DetailPane.whole > #wrong { max-height: 45%; }
    DetailPane > #sides { height: 1fr; }
    DetailPane.event > #wrong { max-height: 100%; height: 1fr; }
    DetailPane.event > #sides { display: none; }
    DetailPane HexView { width: 1fr; min-width: 46; height: 1fr; border-left: solid $panel; }
    DetailPane.narrow SidePane { display: none; }
    DetailPane.narrow SidePane.active { display: block; }
    DetailPane.wide HexView { width: 79; }
    """

    active: reactive[str] = reactive("request")

    def __init__(self, clock: TimeDisplay) -> None:
        super().__init__()
        self._clock = clock
        self._exchange: Exchange | None = None
        self._note = ""
        self._findings = Static()
        self._problems = VerticalScroll(id="wrong", can_focus=False)
        self.panes = SidePane("request"), SidePane("response")
        self._bytes = HexView(id="bytes")

    def compose(self) -> ComposeResult:
        """Create the findings, and the two sides and the bytes below."""
        with self._problems:
            yield self._findings
        with Horizontal(id="sides"):
            yield from self.panes
            yield self._bytes

    def on_resize(self) -> None:
        """Show both sides and full findings only if there is room."""
        self.set_class(self.size.width >= 150, "wide")
        self.set_class(self.size.width < 120, "narrow")
        self._show_findings()

    @property
    def pane(self) -> SidePane:
        """The side whose bytes are shown."""
        return self.panes[self.active == "response"]

    def show(self, exchange: Exchange | None, note: str = "") -> None:
        """Show an exchange and the user's note on it; empty both sides if it is None."""
        self._exchange, self._note = exchange, note
        if exchange is None:
            self._show_sides(None, None)
            return
        frame_size = max((len(line.frame or "") for line in (exchange.request, exchange.response) if line), default=0)
        if frame_size < _LARGE_BYTES:
            self._show_sides(*_sides(exchange))
        else:
            self._read_sides(exchange)

    @work(thread=True, exclusive=True)
    def _read_sides(self, exchange: Exchange) -> None:
        sides = _sides(exchange)
        if self._exchange is exchange:
            self.app.call_from_thread(self._show_sides, *sides)

    def _show_sides(self, request: FrameDetail | None, response: FrameDetail | None) -> None:
        panes = self.panes
        exchange = self._exchange
        is_frame = exchange is not None and exchange.event is None
        self.set_class(not is_frame, "event")
        panes[0].show(request, "not seen")
        panes[1].show(response, "not seen" if request is None else "no response yet")
        self._show_findings()
        worst = max(
            (shown_side for shown_side in (response, request) if shown_side is not None), key=_worst_rank, default=None
        )
        self.active = "request" if worst is None or worst is request else "response"
        self._activate()
        if is_frame and self._problems.has_focus:
            self.first.focus()
        if worst is not None:
            self._point_at_worst(worst)

    def _show_findings(self) -> None:
        """Update the findings."""
        request, response = (pane.side for pane in self.panes)
        is_full = self.has_class("whole") and self.size.height >= _FULL_FINDINGS_LINES
        text = _exchange_text(
            self._exchange, request, response, self._clock, self._findings.size.width if is_full else 0
        )
        if self._note:
            text = Text.assemble(("note: ", "bold"), f"{safe(self._note)}\n", text)
        self._findings.update(truncate_lines(text))

    def _point_at_worst(self, detail: FrameDetail) -> None:
        """Move the cursors to the most severe finding."""
        first = next((finding for finding in detail.findings if finding.path or finding.span), None)
        if first is None:
            return
        chain = detail.find(first.path) if first.path else []
        if first.span is not None and (not chain or chain[-1].start != first.span[0]):  # the field may occur twice
            chain = detail.at_byte(first.span[0]) or chain
        self.pane.tree_of_fields.point_at(chain)
        if first.span is not None:
            self._bytes.span = first.span

    def watch_active(self) -> None:
        """Show the bytes of the active side."""
        if self.is_mounted:
            self._activate()

    def _activate(self) -> None:
        for pane in self.panes:
            pane.set_class(pane.id == self.active, "active")
        detail = self.pane.side
        spans = [(*finding.span, finding.severity) for finding in detail.findings if finding.span] if detail else []
        self._bytes.show(*_bytes_to_show(detail), spans)

    def set_fullscreen(self, *, fullscreen: bool) -> None:
        """Enter or leave full-screen mode, which shows findings in full, with their bytes, if there is room."""
        self.set_class(fullscreen, "whole")
        self._problems.can_focus = fullscreen
        self._show_findings()

    @property
    def first(self) -> Widget:
        """The widget that gets the focus: the fields, or the text of an event."""
        return self._problems if self.has_class("event") else self.pane.tree_of_fields

    def toggle_side(self) -> None:
        """Switch to the other side."""
        self.active = "response" if self.active == "request" else "request"
        self.pane.tree_of_fields.focus()

    @on(FieldTree.Pointed)
    def mark_bytes(self, event: FieldTree.Pointed) -> None:
        """Highlight the bytes of the field under the cursor."""
        event.stop()
        if event.tree is not self.pane.tree_of_fields:
            if not event.tree.has_focus:
                return
            self.active = "request" if self.active == "response" else "response"
        field = event.field
        if field.start is not None and field.end is not None:
            spans = (finding.span for finding in self.pane.side.findings if finding.span) if self.pane.side else ()
            # For a malformed field, only the finding has the real length.
            self._bytes.span = field.start, max(field.end, *(end for start, end in spans if start == field.start), 0)

    @on(FieldTree.Chosen)
    def show_full_value(self, event: FieldTree.Chosen) -> None:
        """Show a field or record in full."""
        event.stop()
        self.app.push_screen(ValueWindow(event.chain))

    @on(HexView.Pointed)
    def show_field(self, event: HexView.Pointed) -> None:
        """Move the cursor to the field that contains the byte."""
        event.stop()
        detail = self.pane.side
        if detail is not None:
            self.pane.tree_of_fields.point_at(detail.at_byte(event.offset))

    @property
    def field(self) -> FieldView | None:
        """The field under the cursor."""
        node = self.pane.tree_of_fields.cursor_node
        return node.data if node is not None else None


def _sides(exchange: Exchange) -> tuple[FrameDetail | None, FrameDetail | None]:
    request, response = exchange.request, exchange.response
    return (
        build_frame_detail(request) if request is not None else None,
        build_frame_detail(response, request) if response is not None else None,
    )


def _bytes_to_show(detail: FrameDetail | None) -> tuple[bytes, int]:
    """Return the bytes of a side, or else of a finding's excerpt, and the offset of the first byte."""
    if detail is None or detail.frame is not None:
        return (detail and detail.frame) or b"", 0
    finding_excerpt = next((finding.excerpt for finding in detail.findings if finding.excerpt is not None), None)
    return (b"", 0) if finding_excerpt is None else (excerpt_bytes(finding_excerpt), finding_excerpt.start)


def _worst_rank(detail: FrameDetail) -> int:
    return max((RANK.get(finding.severity, 0) + 1 for finding in detail.findings), default=0)


def _exchange_text(
    exchange: Exchange | None, request: FrameDetail | None, response: FrameDetail | None, clock: TimeDisplay, width: int
) -> Text:
    """Return the findings, in full within `width` or, if it is 0, only their messages and hints; then the summary."""
    if exchange is None:
        return Text()
    text = Text()
    findings = [
        _add_excerpt(finding, detail) for detail in (response, request) if detail for finding in detail.findings
    ]
    for finding in sorted(findings, key=lambda finding: -RANK.get(finding.severity, 0)):
        text.append_text(full_finding(finding, width) if width else _short_text(finding))
    for repeat in exchange.repeats:
        text.append_text(_repeat_text(repeat, exchange.line.connection_id))
    if isinstance(exchange.event, FindingLine):
        event = exchange.event
        for name, value in (
            ("", event.message),
            ("expected: ", event.expected),
            ("got: ", event.got),
            ("hint: ", event.hint),
        ):
            if value:
                text.append(name, "dim").append(f"{safe(value)}\n")
    elif exchange.event is not None:
        for name, fact in msgspec.to_builtins(exchange.event).items():
            if name not in _IN_SUMMARY and fact:
                text.append(f"{name}: ", "dim").append(f"{safe(str(fact))}\n")
    if exchange.late is not None:
        text.append_text(_late_text(exchange.late, clock))
    text.append_text(_summary_text(exchange, clock))
    return text


def _late_text(late_response: LateResponse, clock: TimeDisplay) -> Text:
    """Return why a response is late, and when that was reported."""
    text = Text().append(f"late: {safe(late_response.wait)}", "yellow").append(f"  {safe(late_response.why)}\n")
    others_text = (
        f", {late_response.others:,} more wait{'s' * (late_response.others == 1)} behind it"
        if late_response.others
        else ""
    )
    return text.append(
        f"  as of {safe(clock.time(late_response.at)[:8])} {clock.label(late_response.at)}{others_text}\n", "dim"
    )


def _summary_text(exchange: Exchange, clock: TimeDisplay) -> Text:
    """Return the summary: errors, time, connection, client, latency."""
    line, frame = exchange.line, exchange.frame
    text = Text()
    if isinstance(exchange.response, ResponseLine):
        for error in exchange.response.errors[:_MAX_ERRORS]:
            text.append(f"{safe(error.name)} ({error.code})", "red bold").append(f"  at {safe(error.path)}\n", "dim")
        if (more_count := len(exchange.response.errors) - _MAX_ERRORS) > 0:
            text.append(f"and {more_count} more errors\n", "dim")
    text.append(safe(clock.labelled(line.ts)), "dim").append(f"  {safe(line.connection_id)}", "dim")
    if frame is not None:
        text.append(f"  {safe(frame.client)} -> {safe(frame.server)}", "dim")
        if frame.client_id:
            text.append(f"  {safe(frame.client_id)}", "bold")
    if exchange.response is not None and exchange.response.latency_us is not None:
        text.append(f"  {duration(exchange.response.latency_us)}")
    return text


def _short_text(finding: FindingEntry) -> Text:
    """Return a finding without bytes: message, edit and hint."""
    text = styled([(f"{finding.code} {finding.name}", finding.severity), (f"  {finding.message}", "")]).append("\n")
    if finding.edit is not None:
        text.append("  edit: ", "dim").append(safe(sentence(finding.edit)), "bold").append(
            f"{confidence_text(finding.confidence)}\n", "dim"
        )
    if finding.hint:
        text.append("  hint: ", "dim").append(f"{safe(finding.hint)}\n")
    return text


def _repeat_text(repeat: RepeatedFinding, connection_id: str) -> Text:
    """Return a text that names the finding that a frame repeats, and where it was first reported."""
    location = f"connection {repeat.connection_id or connection_id}"
    if repeat.offset is not None:
        stream = f"{repeat.direction} stream" if repeat.direction else "stream"
        location = f"byte {repeat.offset} of the {stream} of {location}"
    title = f"{repeat.code} again"
    return styled([(title, repeat.severity), (f"  reported first at {location}; ! or view 6 has it", "dim")]).append(
        "\n"
    )


def _add_excerpt(finding: FindingEntry, detail: FrameDetail) -> FindingEntry:
    """Return a finding with an excerpt of the bytes around its span, if it has none."""
    if finding.excerpt is not None or finding.span is None or detail.frame is None:
        return finding
    return msgspec.structs.replace(finding, excerpt=excerpt(detail.frame, *finding.span))
