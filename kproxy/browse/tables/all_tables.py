"""All tables, by their names in URLs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kproxy.browse.session import BrowseSession
from kproxy.browse.session_view import SessionView
from kproxy.browse.tables.apis import apis
from kproxy.browse.tables.clients import clients
from kproxy.browse.tables.connections import brokers, connections
from kproxy.browse.tables.groups import groups, share_groups
from kproxy.browse.tables.table import OverviewTable
from kproxy.browse.tables.topics import topics
from kproxy.browse.tables.transactions import transactions

TABLES: Final[Mapping[str, Callable[[BrowseSession, SessionView], OverviewTable]]] = {
    "connections": connections,
    "apis": apis,
    "topics": topics,
    "groups": groups,
    "transactions": transactions,
    "share-groups": share_groups,
    "clients": clients,
    "brokers": brokers,
}
