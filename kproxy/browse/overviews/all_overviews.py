"""All overviews of a trace, updated while it is read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from kproxy.browse.overviews.apis import Apis
from kproxy.browse.overviews.clients import Clients
from kproxy.browse.overviews.connections import ConnectionsOverview
from kproxy.browse.overviews.topics import TopicsOverview
from kproxy.groups import GroupsOverview
from kproxy.shares import SharesOverview
from kproxy.trace.lines import Line
from kproxy.transactions import TransactionsOverview
from kproxy.verdict.causes import Causes


@dataclass(slots=True)
class Overviews:
    """The overviews, each of which receives every line once."""

    connections: ConnectionsOverview = field(default_factory=ConnectionsOverview)
    apis: Apis = field(default_factory=Apis)
    topics: TopicsOverview = field(default_factory=TopicsOverview)
    groups: GroupsOverview = field(default_factory=GroupsOverview)
    transactions: TransactionsOverview = field(default_factory=TransactionsOverview)
    shares: SharesOverview = field(default_factory=SharesOverview)
    findings: Causes = field(default_factory=Causes)
    clients: Clients = field(default_factory=Clients)

    def observe(self, line: Line, row: int, at: int, requests: Collection[int]) -> None:
        """Process the next line.

        Args:
            line: A line of any kind.
            row: Its row in the index.
            at: Its time in ns.
            requests: The rows of the requests in flight that it concerns (`RowIndex.requests`).
        """
        self.connections.observe(line, row, at, requests)
        self.apis.observe(line, row, at, requests)
        self.topics.observe(line, row, at)
        self.groups.observe(line, row, at)
        self.transactions.observe(line, row, at)
        self.shares.observe(line, at)
        self.findings.add(line, row)
        self.clients.observe(line, row, at)
