"""The layouts of a frame's header and body, and the layouts under edits of the whole frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dissectors.diagnosis.proposals import Proposal
from dissectors.edits import Edit, EditError, frame_layout
from dissectors.wire.layout import Layout, cached_on_owner
from dissectors.wire.layout import layout as layout_of

_EMPTY = Layout("", ())


class FrameLayouts(NamedTuple):
    """The layouts of a frame's header and body."""

    header: Layout
    body: Layout

    @classmethod
    def of(cls, frame: Layout) -> FrameLayouts:
        """Split the layout of a frame from `dissectors.edits.frame_layout`."""
        header, body = (field.struct for field in frame.fields)
        assert header is not None
        assert body is not None
        return cls(header, body)

    def with_proposal(self, proposal: Proposal) -> FrameLayouts:
        """Return the layouts under a proposal for the whole frame; an unchanged layout stays the same object."""
        header, body = self
        if not proposal.field.startswith("*"):
            return FrameLayouts(
                _apply_cached(header, proposal, lambda edit: FrameLayouts(header, _EMPTY).with_edit(edit).header), body
            )
        if proposal.kind == "body_version":
            version, header_version = proposal.arguments
            return FrameLayouts(
                header if header_version is None else layout_of(header.name, header_version),
                layout_of(body.name, version),
            )
        if proposal.kind == "body_of_api":
            api, version = proposal.arguments
            side = "Request" if body.name.endswith("Request") else "Response"
            return FrameLayouts(header, layout_of(api + side, version))
        return FrameLayouts(header, _apply_cached(body, proposal, lambda edit: edit.apply(body)))

    def differs_from(self, other: FrameLayouts) -> bool:
        """Whether the header or the body differs from the one in `other`."""
        return self.header is not other.header or self.body is not other.body

    def with_edit(self, edit: Edit) -> FrameLayouts:
        """Return the layouts under an edit of any kind."""
        return FrameLayouts.of(edit.apply(frame_layout(self.header, self.body)))


def _apply_cached(layout: Layout, proposal: Proposal, apply: Callable[[Edit], Layout]) -> Layout:
    """Return the layout under a proposal, cached; the same layout if the proposal does not apply to it."""
    results, key = _proposal_results(layout), (proposal.kind, proposal.field, proposal.arguments)
    if key not in results:
        try:
            edited = apply(proposal.edit)
        except EditError:
            edited = layout
        results[key] = None if edited == layout else edited
    return results[key] or layout


@cached_on_owner
def _proposal_results(layout: Layout) -> dict[tuple[str, str, tuple[Any, ...]], Layout | None]:
    """Return a cache of results by kind, field and arguments of a proposal. None stands for an unchanged layout."""
    return {}
