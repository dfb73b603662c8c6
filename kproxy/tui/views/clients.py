"""Clients: identity, API versions used, and whether they work with Kafka 4."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text

from kproxy.browse.overviews.clients import Client
from kproxy.browse.overviews.kafka4 import Kafka4Verdict
from kproxy.browse.session import BrowseSession
from kproxy.trace.formatting import safe
from kproxy.tui.overview import OverviewView, count, found, lines, names_and_counts, quoted
from kproxy.tui.table import Cell, TableColumn

_STYLES = {Kafka4Verdict.WORKS: "response", Kafka4Verdict.REFUSED: "error", Kafka4Verdict.UNKNOWN: "warning"}
_BAD = {Kafka4Verdict.REFUSED: 2, Kafka4Verdict.UNKNOWN: 1, Kafka4Verdict.WORKS: 0}


class ClientView(OverviewView[Client]):
    """See the module."""

    title: ClassVar[str] = "Clients"
    about: ClassVar[str] = (
        "Each row is a client: its client id, its software, and its host. Kafka 4 no longer serves the"
        " oldest versions (KIP-896): works, refused, or unknown if the traffic does not show it, each with a reason."
        " Below are the APIs and versions that it uses. Enter shows its frames."
    )
    columns: ClassVar[Sequence[TableColumn]] = (
        TableColumn("client", 14, grow=2),
        TableColumn("software", 14, grow=2, drop=2),
        TableColumn("host", 15, drop=5),
        TableColumn("conns", 6, right=True, drop=6),
        TableColumn("asked", 8, right=True, drop=4),
        TableColumn("errors", 6, right=True, drop=3),
        TableColumn("findings", 9, drop=1),
        TableColumn("Kafka 4", 8),
        TableColumn("because", 20, grow=4),
    )
    orders: ClassVar = (
        ("k", "Kafka 4", lambda each: (_BAD[each.verdict], each.requests)),
        ("a", "asked", lambda each: each.requests),
        ("e", "errors", lambda each: each.refusals),
        ("f", "findings", lambda each: each.findings[::-1]),
        ("l", "last seen", lambda each: each.last_at),
    )

    def __init__(self, session: BrowseSession) -> None:
        super().__init__(session, "clients")

    def items(self) -> list[Client]:
        """See `OverviewView`."""
        rows, matching = self.session.overviews.clients.rows(), self.session.matching
        return [each for each in rows if matching is None or (each.client_id, each.host) in matching.clients]

    def unlisted(self) -> tuple[int, str]:
        """See `OverviewView`."""
        return self.session.overviews.clients.others, "older clients"

    def key(self, item: Client) -> tuple[str | None, ...]:
        """See `OverviewView`."""
        return item.client_id, item.software_name, item.software_version, item.host

    def cells(self, item: Client) -> Sequence[Cell]:
        """See `OverviewView`."""
        return [
            [(safe(item.client_id or "(none)"), "name")],
            [(_software(item), "")],
            [(safe(item.host), "dim")],
            count(item.connections),
            count(item.requests),
            count(item.refusals, "error"),
            found(item.findings),
            [(item.verdict.value, _STYLES[item.verdict])],
            [(safe(item.reason), "")],
        ]

    def item_text(self, item: Client) -> Text:
        """See `OverviewView`."""
        used = (
            f"{safe(each.api)} v{each.lowest}" + (f"-{each.highest}" if each.highest > each.lowest else "")
            for each in item.apis
        )
        old = (
            f"{safe(each.api)} v{each.version}"
            + (f" (Kafka 4 serves v{each.least} and later)" if each.least is not None else " (removed in Kafka 4)")
            for each in item.old
        )
        return lines(
            ("client", f"{safe(item.client_id or '(none)')}  {_software(item)}  {safe(item.host)}"),
            ("Kafka 4", f"{item.verdict.value}: {safe(item.reason)}"),
            ("removed versions", ", ".join(old)),
            ("negotiates versions", "yes" if item.negotiates else "not seen"),
            ("uses", "  ".join(used) + ("  ..." if item.more_versions else "")),
            ("errors", names_and_counts(item.errors)),
            ("last seen", self.session.clock.labelled(item.last_at)),
        )

    def open(self, item: Client) -> None:
        """See `OverviewView`."""
        if item.client_id:
            self.narrow(f"client_id={quoted(item.client_id)}")
        else:
            self.jump(item.first_row)


def _software(item: Client) -> str:
    return safe(f"{item.software_name or ''} {item.software_version or ''}".strip())
