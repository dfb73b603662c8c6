"""Compares the traffic of two traces: connections, exchanges, bodies, polls and findings."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from dissectors.messages.message import api_name
from dissectors.messages.readiness import are_all_not_ready
from kproxy.comparison.alignment import POLLS, AlignedExchanges, align_connections, align_exchanges, pair_remaining
from kproxy.comparison.bodies import DifferenceKind, FieldDifference, compare_bodies
from kproxy.comparison.differences import Aspect, TrafficComparison, TrafficDifference
from kproxy.comparison.kinds import MAY_DIFFER, ValueKind
from kproxy.comparison.members import with_sorted_members
from kproxy.comparison.polls import compare_polls, poll_values, unanswered_requests
from kproxy.comparison.traffic import RecordedConnection, RecordedExchange, RecordedTraffic
from kproxy.trace.encoding import encode_json

#: Requests that clients send when they connect or refresh. The order and number of successful ones may differ.
_ROUTINE: Final = frozenset({"ApiVersions", "FindCoordinator", "Metadata", "SaslAuthenticate", "SaslHandshake"})
_INDEX: Final = re.compile(r"\[\d+\]")
_API_KEY: Final = re.compile(r"api_keys\[(\d+)\]")


_ORDER: Final = (
    Aspect.FINDING, Aspect.RESPONSE, Aspect.ERROR_CODE, Aspect.FIELD, Aspect.VERSION, Aspect.REQUEST, Aspect.ORDER,
    Aspect.CONNECTION,
)  # fmt: skip


def compare_traffic(
    a: RecordedTraffic,
    b: RecordedTraffic,
    *,
    may_differ: frozenset[ValueKind] = MAY_DIFFER,
    complete: bool = False,
    shows: Callable[[str], bool] = lambda _: True,
) -> TrafficComparison:
    """Compare two traces.

    Args:
        a: The traffic of one trace.
        b: The traffic of the other.
        may_differ: Kinds of values that need not be equal, see `kproxy.comparison.bodies.compare_bodies`.
        complete: Whether every request was sent once and its response awaited. Otherwise polls are compared by their
            values (`kproxy.comparison.polls`), and the last request of a connection may have been in flight.
        shows: Takes the code of a finding, and returns whether to compare it.
    """
    comparer = _Comparer(a, b, may_differ, complete)
    comparer.compare_connections()
    comparer.compare_polls()
    comparer.compare_findings(shows)
    comparer.note_not_ready()
    comparison = comparer.comparison
    comparison.differences.sort(key=lambda difference: _ORDER.index(difference.aspect))
    return comparison


class _Comparer:
    def __init__(
        self, a: RecordedTraffic, b: RecordedTraffic, may_differ: frozenset[ValueKind], complete: bool
    ) -> None:
        self.comparison = TrafficComparison(a, b)
        self._a, self._b, self._may_differ = a, b, may_differ
        self._complete = complete
        self._polled_apis = frozenset[str]() if complete else POLLS
        self._known_differences: dict[object, TrafficDifference] = {}
        self._last_exchanges: set[int] = set()

    def compare_connections(self) -> None:
        """Compare the exchanges of each pair of connections."""
        unpaired_a: list[RecordedExchange] = []
        unpaired_b: list[RecordedExchange] = []
        for connection_a, connection_b in align_connections(self._a.connections, self._b.connections):
            if connection_a is not None and connection_b is not None:
                for aligned in self._compare_exchanges(
                    self._compared_exchanges(connection_a), self._compared_exchanges(connection_b)
                ):
                    unpaired_a += aligned.only_a
                    unpaired_b += aligned.only_b
            elif (unpaired := connection_a or connection_b) is not None:
                self._add_unpaired_connection(unpaired, "A" if connection_a else "B")
        # A client may send some requests on any of its connections.
        for pair in pair_remaining(unpaired_a, unpaired_b):
            self._compare_pair(*pair)
        routine: Counter[str] = Counter()
        for unpaired_exchanges, kind in (
            (unpaired_a, DifferenceKind.ONLY_IN_A),
            (unpaired_b, DifferenceKind.ONLY_IN_B),
        ):
            for exchange in unpaired_exchanges:
                has_failed = exchange.response is not None and exchange.response.errors
                if exchange.api in _ROUTINE and not has_failed:
                    routine[exchange.api] += 1
                else:
                    self._add_unpaired(exchange, kind)
        if routine:
            summary = ", ".join(f"{count} {api}" for api, count in sorted(routine.items()))
            self.comparison.notes.append(f"additional routine requests, not compared: {summary}")

    def compare_polls(self) -> None:
        """Compare the polls of each client that is in both traces, and those of all other clients together."""
        common_clients = {connection.client_id for connection in self._a.connections} & {
            connection.client_id for connection in self._b.connections
        }
        polls_a, polls_b = self._polls(self._a, common_clients), self._polls(self._b, common_clients)
        connections = (*self._a.connections, *self._b.connections)
        unanswered_ids = {
            id(exchange) for connection in connections for exchange in unanswered_requests(connection.exchanges)
        }
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for key in dict.fromkeys((*polls_a, *polls_b)):
            values_a, values_b = (
                poll_values(side.get(key, ()), frozenset(ValueKind) - self._may_differ - {ValueKind.OFFSET})
                for side in (polls_a, polls_b)
            )
            counts[key[0]][0] += values_a.count
            counts[key[0]][1] += values_b.count
            if not values_a.count or not values_b.count:
                first_exchange = (polls_a.get(key) or polls_b[key])[0]
                kind = DifferenceKind.ONLY_IN_A if values_a.count else DifferenceKind.ONLY_IN_B
                self._add_unpaired(first_exchange, kind)
                continue
            locations = [
                next((poll_exchange.place for poll_exchange in side[key] if id(poll_exchange) in unanswered_ids), "")
                for side in (polls_a, polls_b)
            ]
            if bool(locations[0]) != bool(locations[1]):
                states = ["none" if location else "received" for location in locations]
                self._add_or_count(TrafficDifference(
                    Aspect.RESPONSE, api=key[0], a=states[0], b=states[1], place_a=locations[0], place_b=locations[1]
                ))  # fmt: skip
            if values_a.versions != values_b.versions:
                self._add_or_count(TrafficDifference(
                    Aspect.VERSION, api=key[0],
                    a=_versions_text(values_a.versions), place_a=polls_a[key][0].place,
                    b=_versions_text(values_b.versions), place_b=polls_b[key][0].place,
                ))  # fmt: skip
            for difference in compare_polls(values_a, values_b):
                direction, _, path = difference.path.partition(".")
                self._add_or_count(TrafficDifference(
                    Aspect.ERROR_CODE if path.endswith("error_code") else Aspect.FIELD,
                    api=key[0], direction=direction, path=path, why=DifferenceKind.SEEN,
                    owner=f"{key[0]}{direction.capitalize()}",
                    a=[value for value, _ in difference.a], place_a=difference.a[0][1] if difference.a else "",
                    b=[value for value, _ in difference.b], place_b=difference.b[0][1] if difference.b else "",
                ), by_value=True)  # fmt: skip
        differing = [f"{api} {a} and {b}" for api, (a, b) in sorted(counts.items()) if a != b]
        if differing:
            self.comparison.notes.append(
                f"repeated requests, whose number may differ (A and B): {', '.join(differing)}"
            )

    def compare_findings(self, shows: Callable[[str], bool]) -> None:
        """Compare which findings each trace has."""
        for key in dict.fromkeys((*self._a.findings, *self._b.findings)):
            message_a, message_b = self._a.findings.get(key), self._b.findings.get(key)
            if (message_a is None or message_b is None) and shows(key[0]):
                code, api, direction = key
                kind = DifferenceKind.ONLY_IN_A if message_b is None else DifferenceKind.ONLY_IN_B
                self._add_or_count(
                    TrafficDifference(Aspect.FINDING, code, api, [], direction, a=message_a, b=message_b, why=kind)
                )

    def note_not_ready(self) -> None:
        """Add a note about the exchanges left out because the broker was not ready."""
        if self._complete:
            return
        counts = [
            Counter(
                exchange.api
                for connection in side.connections
                for exchange in connection.exchanges
                if _was_not_ready(exchange)
            )
            for side in (self._a, self._b)
        ]
        if summary := ", ".join(
            f"{api} {counts[0][api]} and {counts[1][api]}" for api in sorted(counts[0] | counts[1])
        ):
            self.comparison.notes.append(f"requests to a broker that was not ready, not compared (A and B): {summary}")

    def _compare_exchanges(
        self, a: Sequence[RecordedExchange], b: Sequence[RecordedExchange]
    ) -> tuple[AlignedExchanges, AlignedExchanges]:
        """Compare two connections, with routine requests aligned separately, because clients send them at any time."""
        routine, other = (
            align_exchanges(
                *([exchange for exchange in side if (exchange.api in _ROUTINE) is is_routine] for side in (a, b))
            )
            for is_routine in (True, False)
        )
        if not self._complete:
            self._last_exchanges |= {id(exchanges[-1]) for exchanges in (a, b) if exchanges}
        for pair in (*routine.pairs, *routine.moved, *other.pairs, *other.moved):
            self._compare_pair(*pair)
        for exchange_a, exchange_b in other.moved:
            self._add_difference(Aspect.ORDER, exchange_a, exchange_b, a=exchange_a.place, b=exchange_b.place)
        return routine, other

    def _compare_pair(self, a: RecordedExchange, b: RecordedExchange) -> None:
        self.comparison.pairs += 1
        if a.version != b.version:
            self._add_difference(Aspect.VERSION, a, b, a=f"v{a.version}", b=f"v{b.version}", by_value=True)
        self._compare_bodies(a, b, "request")
        if a.response is not None and b.response is not None:
            self._compare_bodies(a, b, "response")
        elif (a.response is None) != (b.response is None):
            side, unanswered = ("A", a) if a.response is None else ("B", b)
            if id(unanswered) in self._last_exchanges:
                self.comparison.notes.append(
                    f"no response in {side} to the last request of a connection: {_exchange_name(unanswered)}"
                )
            else:
                states = ["none" if exchange.response is None else "received" for exchange in (a, b)]
                self._add_difference(Aspect.RESPONSE, a, b, a=states[0], b=states[1], by_value=True)

    def _compare_bodies(self, a: RecordedExchange, b: RecordedExchange, direction: str) -> None:
        line_a, line_b = getattr(a, direction), getattr(b, direction)
        if (line_a.not_decoded is None) != (line_b.not_decoded is None):
            states = [line.not_decoded or "decoded" for line in (line_a, line_b)]
            self._add_difference(Aspect.FIELD, a, b, direction, a=states[0], b=states[1])
        if line_a.body is None or line_b.body is None:
            return
        comparison = compare_bodies(
            f"{a.api}{direction.capitalize()}",
            with_sorted_members(line_a.body),
            with_sorted_members(line_b.body),
            may_differ=self._may_differ,
            same_layout=a.version == b.version,
            topic_names=(self._a.topic_names.get, self._b.topic_names.get),
        )
        for difference in comparison.differences:
            is_error = difference.why is DifferenceKind.ERROR_CODE
            path = _api_path(difference, line_a.body, line_b.body) if a.api == "ApiVersions" else difference.path
            aspect = Aspect.ERROR_CODE if is_error else Aspect.FIELD
            self._add_difference(aspect, a, b, direction, _INDEX.sub("[]", path), difference.a, difference.b,
                                 difference.why, difference.owner, by_value=is_error)  # fmt: skip

    def _add_unpaired_connection(self, connection: RecordedConnection, side: str) -> None:
        apis = Counter(exchange.api for exchange in connection.exchanges)
        summary = ", ".join(f"{count} {api}" for api, count in apis.most_common(5))
        client = connection.client_id or "no client id"
        if apis.keys() <= _ROUTINE | self._polled_apis:
            self.comparison.notes.append(f"a connection of {client} only in {side}: {summary}")
            return
        location = connection.exchanges[0].place
        self._add_or_count(
            TrafficDifference(Aspect.CONNECTION, client, a=summary, why=DifferenceKind.ONLY_IN_A, place_a=location)
            if side == "A"
            else TrafficDifference(Aspect.CONNECTION, client, b=summary, why=DifferenceKind.ONLY_IN_B, place_b=location)
        )

    def _compared_exchanges(self, connection: RecordedConnection) -> list[RecordedExchange]:
        return [exchange for exchange in self._ready_exchanges(connection) if exchange.api not in self._polled_apis]

    def _ready_exchanges(self, connection: RecordedConnection) -> list[RecordedExchange]:
        """Return the exchanges except those that the client had to repeat because the broker was not ready."""
        return [exchange for exchange in connection.exchanges if self._complete or not _was_not_ready(exchange)]

    def _polls(
        self, traffic: RecordedTraffic, common_clients: set[str | None]
    ) -> dict[tuple[str, str | None], list[RecordedExchange]]:
        """Return the polls by API and client; the client is None unless it is in both traces."""
        polls: dict[tuple[str, str | None], list[RecordedExchange]] = defaultdict(list)
        for connection in traffic.connections:
            client = connection.client_id if connection.client_id in common_clients else None
            for exchange in self._ready_exchanges(connection):
                if exchange.api in self._polled_apis:
                    polls[exchange.api, client].append(exchange)
        return dict(polls)

    def _add_unpaired(self, exchange: RecordedExchange, kind: DifferenceKind) -> None:
        version, location = exchange.version, exchange.place
        place_a, place_b = (location, "") if kind is DifferenceKind.ONLY_IN_A else ("", location)
        self._add_or_count(TrafficDifference(
            Aspect.REQUEST, api=exchange.api, versions=[(version, version)], a="sent", b="sent", why=kind,
            place_a=place_a, place_b=place_b,
        ))  # fmt: skip

    def _add_difference(
        self, aspect: Aspect, exchange_a: RecordedExchange, exchange_b: RecordedExchange, direction: str = "",
        path: str = "", a: Any = None, b: Any = None, kind: DifferenceKind = DifferenceKind.VALUE, owner: str = "", *,
        by_value: bool = False,
    ) -> None:  # fmt: skip
        versions = [(exchange_a.version, exchange_b.version)]
        difference = TrafficDifference(
            aspect, "", exchange_a.api, versions, direction, path, a, b, kind, owner, exchange_a.place, exchange_b.place
        )
        self._add_or_count(difference, by_value)

    def _add_or_count(self, difference: TrafficDifference, by_value: bool = False) -> None:
        """Add a difference, or count it if another exchange, version or array element already has it."""
        values = encode_json([difference.a, difference.b]) if by_value else None
        key = (
            difference.aspect, difference.subject, difference.api, difference.direction, difference.path,
            difference.why, values,
        )  # fmt: skip
        known_difference = self._known_differences.get(key)
        if known_difference is None:
            self._known_differences[key] = difference
            self.comparison.differences.append(difference)
            return
        known_difference.count += 1
        known_difference.versions += [
            version for version in difference.versions if version not in known_difference.versions
        ]


def _api_path(difference: FieldDifference, a: dict[str, Any], b: dict[str, Any]) -> str:
    """Return the path of an ApiVersions response field with the API's name: ``api_keys[Fetch].max_version``."""
    match = _API_KEY.match(difference.path)
    keys = (b if difference.why is DifferenceKind.ONLY_IN_B else a).get("api_keys")
    if match is None or not isinstance(keys, list):
        return difference.path
    key = keys[int(match[1])]
    name = api_name(key["api_key"]) if isinstance(key, dict) and isinstance(key.get("api_key"), int) else match[1]
    return f"api_keys[{name}]{difference.path[match.end() :]}"


def _was_not_ready(exchange: RecordedExchange) -> bool:
    return exchange.response is not None and are_all_not_ready(error.code for error in exchange.response.errors)


def _exchange_name(exchange: RecordedExchange) -> str:
    return f"{exchange.api} v{exchange.version} {exchange.place}"


def _versions_text(versions: Iterable[int]) -> str:
    return ", ".join(f"v{version}" for version in sorted(versions))
