"""The quirks of a running cluster: selects the quirks for a request, and applies them to its response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dissectors import schemas
from dissectors.wire.layout import layout
from kproxy.broker.frames import RequestHead, without_defaults
from kproxy.broker.quirks.notation import parse
from kproxy.broker.quirks.quirk import Quirk, ServedResponse

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster


class Quirks:
    """All quirks of a cluster, in the order given."""

    def __init__(self, cluster: Cluster) -> None:
        self._quirks = [quirk for text in cluster.options.quirks for quirk in parse(text)]

    @property
    def description(self) -> list[str]:
        """The description of each quirk, as sentences."""
        return [quirk.description for quirk in self._quirks]

    def matching_quirks(self, head: RequestHead, body: Mapping[str, Any]) -> Sequence[Quirk]:
        """Return the quirks that apply to this request; those with a probability apply at random."""
        if not self._quirks:
            return ()
        api = schemas.api(head.api_key)
        assert api is not None
        return [quirk for quirk in self._quirks if quirk.applies_to(api.name, head.version, head.client_id, body)]


def apply_quirks(
    quirks: Sequence[Quirk], head: RequestHead, request: Mapping[str, Any], body: Mapping[str, Any]
) -> ServedResponse:
    """Apply quirks to a response: to its contents, its delay, and whether the connection is closed afterwards.

    Args:
        quirks: The quirks that apply.
        head: The request's header.
        request: The request's body.
        body: The body of the correct response.

    Raises:
        EncodeError: A value does not fit its type.
    """
    api = schemas.api(head.api_key)
    assert api is not None
    correct_body = without_defaults(layout(f"{api.name}Response", head.version), body)
    response = ServedResponse(api.name, head.version, head.correlation_id, correct_body, request)
    for quirk in quirks:
        if quirk.before is not None:
            quirk.before(response)
    response.write()
    for quirk in quirks:
        if quirk.after is not None:
            quirk.after(response)
    return response
