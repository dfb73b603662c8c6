"""The layouts of header and body together, and edits that change both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dissectors.diagnosis.proposals import Proposal
from dissectors.edits import Edit, EditError, frame_layout
from dissectors.wire.layout import Layout, cached_on_owner
from dissectors.wire.layout import layout as layout_of

_EMPTY = Layout("", ())


class Pair(NamedTuple):
    """The layouts of header and body."""

    header: Layout
    body: Layout

    @classmethod
    def of(cls, frame: Layout) -> Pair:
        """Those in the layout of a frame, as `dissectors.edits.frame_layout` makes it."""
        header, body = (one.struct for one in frame.fields)
        assert header is not None
        assert body is not None
        return cls(header, body)

    def under(self, proposal: Proposal) -> Pair:
        """Those that a proposal of the whole frame makes of them; what it does not change is the same object."""
        header, body = self
        if proposal.field != "*":
            return Pair(_kept(header, proposal, lambda edit: Pair(header, _EMPTY).changed(edit).header), body)
        if proposal.kind == "body_version":
            version, written = proposal.arguments
            return Pair(header if written is None else layout_of(header.name, written), layout_of(body.name, version))
        return Pair(header, _kept(body, proposal, lambda edit: edit.apply(body)))

    def changes(self, other: Pair) -> bool:
        """Whether anything of these is not what the others have."""
        return self.header is not other.header or self.body is not other.body

    def changed(self, edit: Edit) -> Pair:
        """Those that any edit makes of them."""
        return Pair.of(edit.apply(frame_layout(self.header, self.body)))


def _kept(layout: Layout, proposal: Proposal, apply: Callable[[Edit], Layout]) -> Layout:
    """What a proposal makes of a layout, once; nothing else where it does not fit one that another edit has made."""
    known, key = _under(layout), (proposal.kind, proposal.arguments)
    if key not in known:
        try:
            made = apply(proposal.edit)
        except EditError:
            made = layout
        known[key] = None if made == layout else made
    return known[key] or layout


@cached_on_owner
def _under(layout: Layout) -> dict[tuple[str, tuple[Any, ...]], Layout | None]:
    """What each proposal makes of a layout, by its kind and arguments; None where that is the same."""
    return {}
