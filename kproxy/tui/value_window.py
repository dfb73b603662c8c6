"""A window above the detail: one field or record in full."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip

from kproxy.browse.fields.field import FieldView
from kproxy.browse.fields.full_value import full_value
from kproxy.browse.fields.records import Form
from kproxy.outputs.text import STYLES, Piece
from kproxy.trace.formatting import safe
from kproxy.tui.dialogs import box_css

_FORMS = tuple(Form)


class Pager(ScrollView, can_focus=True):
    """Any number of rows, wrapped if too long; only visible lines are drawn."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", show=False),
        Binding("k,up", "scroll_up", show=False),
        Binding("g,home", "scroll_home", show=False),
        Binding("G,end", "scroll_end", show=False),
        Binding("space,ctrl+d,pagedown", "page_down", show=False),
        Binding("ctrl+u,pageup", "page_up", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._rows: Sequence[Sequence[Piece]] = ()
        self._lines: list[list[Piece]] = []

    def show(self, rows: Iterable[Sequence[Piece]]) -> None:
        """Show rows, starting with the first; their text must be safe to show."""
        self._rows = list(rows)
        self._wrap()
        self.scroll_to(y=0, animate=False, immediate=True)

    def on_resize(self) -> None:
        """Wrap the rows again."""
        self._wrap()

    def _wrap(self) -> None:
        width = self.scrollable_content_region.width
        if width > 0:
            self._lines = [line for row in self._rows for line in _wrap_row(row, width)]
            self.virtual_size = Size(width, len(self._lines))
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Render a line of the screen."""
        width, base = self.scrollable_content_region.width, self.rich_style
        index = y + self.scroll_offset.y
        line = self._lines[index] if index < len(self._lines) else []
        return Strip(Segment(text, base + STYLES[style]) for text, style in line).adjust_cell_length(width, base)


def _wrap_row(row: Sequence[Piece], width: int) -> Iterable[list[Piece]]:
    """Yield a row as lines of at most `width` cells."""
    line: list[Piece] = []
    available = width
    for text, style in row:
        if available < width and cell_len(text) > available:
            yield line
            line, available = [], width
        for number, chunk in enumerate(chop_cells(text, width) if text else ()):
            if number:
                yield line
                line, available = [], width
            line.append((chunk, style))
            available -= cell_len(chunk)
    yield line


class ValueWindow(ModalScreen[None]):
    """A field or a record in full; tab switches the form of its bytes.

    Args:
        chain: The fields on the path to the field, outermost first.
    """

    DEFAULT_CSS = box_css("ValueWindow", "width: 104; height: 90%;")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter", "dismiss", show=False),
        Binding("tab", "form(1)", show=False),
        Binding("shift+tab", "form(-1)", show=False),
    ]

    def __init__(self, chain: list[FieldView]) -> None:
        super().__init__()
        self._chain = chain
        self._form = Form.FITS
        self._pager = Pager()
        self._box = Vertical(self._pager, classes="box")

    def compose(self) -> ComposeResult:
        """Create the box with the text."""
        yield self._box

    def on_mount(self) -> None:
        """Show the value in its default form."""
        field = self._chain[-1]
        self._box.border_title = Text(safe(field.path or field.name))
        self._show()

    def _show(self) -> None:
        form_name = Text("tab: ")
        for form in _FORMS:
            form_name.append(f" {form} ", "reverse" if form is self._form else "")
        self._box.border_subtitle = form_name
        self._pager.show(full_value(self._chain, self._form))

    def action_form(self, step: int) -> None:
        """Switch between the default form, text and hex."""
        self._form = _FORMS[(_FORMS.index(self._form) + step) % len(_FORMS)]
        self._show()
