"""All overviews of a trace, updated while it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kproxy.browse.overviews.apis import Apis
from kproxy.browse.overviews.clients import Clients
from kproxy.browse.overviews.connections import ConnectionsOverview
from kproxy.browse.overviews.findings import Findings
from kproxy.browse.overviews.topics import TopicsOverview
from kproxy.groups import GroupsOverview
from kproxy.trace.lines import Line


@dataclass(slots=True)
class Overviews:
    """The overviews; each receives every line once."""

    connections: ConnectionsOverview = field(default_factory=ConnectionsOverview)
    apis: Apis = field(default_factory=Apis)
    topics: TopicsOverview = field(default_factory=TopicsOverview)
    groups: GroupsOverview = field(default_factory=GroupsOverview)
    findings: Findings = field(default_factory=Findings)
    clients: Clients = field(default_factory=Clients)

    def observers(self) -> tuple[Callable[[Line, int, int], None], ...]:
        """Return the functions to call with every line, its row, and its time in ns."""
        return tuple(
            overview.observe
            for overview in (self.connections, self.apis, self.topics, self.groups, self.findings, self.clients)
        )
