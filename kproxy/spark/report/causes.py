"""Root causes of the rows of `anomalies`: a slow broker also slows down its APIs and all of their clients."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import Any, NamedTuple

Row = dict[str, Any]

_HOUR_US = 3_600_000_000
#: A client or API that is slower than its explanation by this factor has a separate cause.
_MAX_EXPLAINED_FACTOR = 2.0
_MAX_NAMES = 3


class AnomalyCause(NamedTuple):
    """What was unusual and where, as a sentence without a full stop; and the time range, in us since 1970."""

    text: str
    begin: int
    end: int


def anomaly_causes(rows: list[Row]) -> list[AnomalyCause]:
    """Return the causes of unusual latencies and errors, each once, most unusual first; rates are ignored."""
    anomalies_by_hour: dict[int, list[tuple[int, Row]]] = defaultdict(list)
    for rank, row in enumerate(rows):
        anomalies_by_hour[row["since"]].append((rank, row))
    ranked_causes: list[tuple[int, AnomalyCause]] = []
    slow_hours: dict[str, list[tuple[int, float, int]]] = defaultdict(list)
    for since, hour_anomalies in sorted(anomalies_by_hour.items()):
        p99 = [(rank, row) for rank, row in hour_anomalies if row["measure"] == "p99"]
        clients = _by_value([anomaly for anomaly in p99 if anomaly[1]["by"] == "client"])
        brokers = {
            name: anomalies for name, anomalies in _by_value(p99, "broker").items() if _is_cause(anomalies, clients)
        }
        for name, broker_anomalies in brokers.items():
            slow_hours[name].append(
                (since, median(map(_factor, (row for _, row in broker_anomalies))), broker_anomalies[0][0])
            )
        slow_apis = {(row["api"], _factor(row)) for broker_anomalies in brokers.values() for _, row in broker_anomalies}
        remaining = [
            (rank, row) for rank, row in p99 if row["value"] not in brokers and not _is_explained(row, slow_apis)
        ]
        ranked_causes += _api_causes(remaining, since)
        ranked_causes += _api_causes(
            [anomaly for anomaly in hour_anomalies if anomaly[1]["measure"] == "errors"], since
        )
    for name, hours in slow_hours.items():
        ranked_causes += _broker_causes(name, hours)
    return [cause for _, cause in sorted(ranked_causes)]


def _broker_causes(name: str, hours: list[tuple[int, float, int]]) -> list[tuple[int, AnomalyCause]]:
    """Return one cause for each run of hours in which a broker was slow; `hours` are (hour, factor, rank)."""
    runs: list[list[tuple[int, float, int]]] = []
    for hour in hours:
        if runs and hour[0] - runs[-1][-1][0] == _HOUR_US:
            runs[-1].append(hour)
        else:
            runs.append([hour])
    return [
        (
            min(rank for _, _, rank in run),
            AnomalyCause(f"Broker {name} was about {_times_text(max(factor for _, factor, _ in run))} slower",
                  run[0][0], run[-1][0] + _HOUR_US),
        )
        for run in runs
    ]  # fmt: skip


def _api_causes(anomalies: list[tuple[int, Row]], since: int) -> list[tuple[int, AnomalyCause]]:
    """Return one cause per API, with its clients and brokers if they are few."""
    causes = []
    for api, api_anomalies in _by_value(anomalies).items():
        summary_row = next((row for _, row in api_anomalies if row["by"] == "api"), api_anomalies[0][1])
        locations = []
        for by in ("client", "broker"):
            names = sorted({row["value"] for _, row in api_anomalies if row["by"] == by})
            if 0 < len(names) <= _MAX_NAMES:
                locations.append(f"{'of' if by == 'client' else 'at'} {', '.join(names)}")
        text = f"{' '.join([api, *locations])}: {summary_row['sentence']}"
        causes.append((api_anomalies[0][0], AnomalyCause(text, since, since + _HOUR_US)))
    return causes


def _by_value(anomalies: list[tuple[int, Row]], by: str | None = None) -> dict[str, list[tuple[int, Row]]]:
    """Group rows of the kind `by` by the name of their item, or all rows by their API if `by` is None."""
    groups: dict[str, list[tuple[int, Row]]] = defaultdict(list)
    for rank, row in anomalies:
        if by is None or row["by"] == by:
            groups[row["api"] if by is None else row["value"]].append((rank, row))
    return groups


def _is_cause(anomalies: list[tuple[int, Row]], clients: dict[str, list[tuple[int, Row]]]) -> bool:
    """Whether the broker itself is slow: in several APIs, or in one API but not for just one client."""
    return len(anomalies) > 1 or any(len(clients.get(row["api"], [])) != 1 for _, row in anomalies)


def _is_explained(row: Row, slow_apis: set[tuple[str, float]]) -> bool:
    """Whether a slow broker explains the row: it served the same API about as slowly."""
    return any(api == row["api"] and _factor(row) <= factor * _MAX_EXPLAINED_FACTOR for api, factor in slow_apis)


def _factor(row: Row) -> float:
    return float(row["actual"] / row["usual"]) if row["usual"] else 1.0


def _times_text(factor: float) -> str:
    return f"{factor:.2g}x" if factor < 10 else f"{factor:,.0f}x"
