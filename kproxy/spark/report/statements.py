"""What each table of a report has to say to operators: sentences, each about one problem.

Each function reads the rows of one job's table. A sentence names the problem and its location.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from dissectors.schemas.removed_versions import newest_release
from kproxy.filters.lexer import quoted as _quoted
from kproxy.spark.report.causes import anomaly_causes
from kproxy.spark.routine_errors import is_routine
from kproxy.trace.formatting import duration

Row = dict[str, Any]

#: Thresholds: a partition's multiple of its even share, the length of a stall (us), the share of errors among an API's
#: responses, connections per minute.
_SKEW, _STALL_US, _ERROR_SHARE, _CHURN = 3.0, 5_000_000, 0.001, 60
#: An API fails, or often fails, if at least these shares of its responses have an error, and at least this many do.
_FAILING, _FAILING_OFTEN, _MIN_SHOWN = 0.5, 0.05, 5
#: This many errors, at one per second or more from the first to the last, are a burst.
_MIN_BURST = 10
_HOUR_US = 3_600_000_000
#: A group that stalls at the same hour on this many days does so every day.
_MIN_DAYS = 3
_MAX_NAMES = 3
#: Rules that other tables cover in more detail, by code or family: group-stalls has family G.
_COVERED_ELSEWHERE: Final = (
    "C016", "C017", "C018", "G", "S005", "S009", "S012", "S033", "S034", "S036", "V002", "V011",
)  # fmt: skip


class Stage(StrEnum):
    """The effect of a problem; the most urgent comes first."""

    FAILS = "fails"
    DEGRADES = "degrades"
    WILL_BREAK = "will break"


class Statement(NamedTuple):
    """A sentence about a problem, without a full stop, and the time range in us (None: all of the observed time).

    The rest is as in `headlines.Headline`.
    """

    level: str
    text: str
    begin: int | None = None
    end: int | None = None
    before: str = ", "  # before the time
    title: str = ""
    stage: Stage = Stage.DEGRADES
    clients: int = 1
    times: int = 1
    rows: Mapping[str, Any] = MappingProxyType({})
    filter: str = ""


def _client_statements(rows: list[Row]) -> Iterator[Statement]:
    rows_by_release: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["api"] is None and row["verdict"] in ("refused", "unknown"):
            rows_by_release[row["verdict"], row["refused_from"] or newest_release()].append(row)
    for (verdict, release), client_rows in sorted(rows_by_release.items()):
        names = list(dict.fromkeys(row["client"] for row in client_rows))
        if verdict == "refused":
            text = f"{_count_text(len(names), 'client')} will be refused by Kafka {release}: {_names_text(names)}"
            yield Statement(
                "warning", text, *_time_range(client_rows), "; active ", f"Kafka {release} will refuse clients",
                Stage.WILL_BREAK, len(names), len(names), {"verdict": verdict, "refused_from": release},
            )  # fmt: skip
        else:
            reason = "it removed versions that they use, but they negotiate versions"
            count_text = _count_text(len(names), "client")
            text = f"{count_text} may be refused by Kafka {release} ({reason}): {_names_text(names)}"
            yield Statement(
                "info", text, *_time_range(client_rows), "; active ", f"Kafka {release} may refuse clients",
                Stage.WILL_BREAK, len(names), len(names), {"verdict": verdict},
            )  # fmt: skip


def _finding_statements(rows: list[Row]) -> Iterator[Statement]:
    rows_by_rule: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["severity"] in ("error", "warning") and not row["code"].startswith(_COVERED_ELSEWHERE):
            rows_by_rule[row["code"], row["name"]].append(row)
    for (code, name), rule_rows in list(rows_by_rule.items())[:6]:
        occurrences = sum(row["findings"] for row in rule_rows)
        clients, brokers = (
            list(dict.fromkeys(row[side] or f"an unknown {side}" for row in rule_rows)) for side in ("client", "broker")
        )
        location = f"{_names_text(clients)} at {_names_text(brokers)}"
        message = next((row["message"] for row in rule_rows if row["message"]), name.replace("-", " "))
        severity = rule_rows[0]["severity"]
        yield Statement(
            severity, f"{_capitalize(message)}; {_count_text(occurrences, 'occurrence')}, {location} ({code})",
            *_time_range(rule_rows), ", ",
            _capitalize(name.replace("-", " ")), Stage.FAILS if severity == "error" else Stage.DEGRADES, len(clients),
            occurrences, {"code": code}, f"finding={code}",
        )  # fmt: skip


def _stall_statements(rows: list[Row]) -> Iterator[Statement]:
    stalls_by_group: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["severity"] != "info" and (row["duration_us"] or 0) >= _STALL_US:
            stalls_by_group[row["group_id"]].append(row)
    for name, stalls in list(stalls_by_group.items())[:4]:
        longest = max(stalls, key=lambda row: row["duration_us"])
        length_text = duration(longest["duration_us"])
        blamed = f", waiting for {_names_text(longest['blamed'])}" if longest.get("blamed") else ""
        starts = [row["since"] for row in stalls]
        if (hour := _same_hour(starts)) is not None:
            days = len({to_datetime(start).date() for start in starts if to_datetime(start).hour == hour})
            frequency = f"every day at {hour:02d}:00 UTC ({days} days)"
        else:
            frequency = _times_text(len(stalls))
        yield Statement(
            "error", f"Group {name} stalls {frequency}, for up to {length_text}{blamed}", min(starts), max(starts),
            ", ",
            f"Group {name} stalls", Stage.FAILS, 1, len(stalls), {"group_id": name}, f"group_id={_quoted(name)}",
        )  # fmt: skip


def _rebalance_statements(rows: list[Row]) -> Iterator[Statement]:
    storms_by_group: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["storm"]:
            storms_by_group[row["group_id"]].append(row)
    for name, rebalances in list(storms_by_group.items())[:4]:
        causing_members = list(dict.fromkeys(row["by"] for row in rebalances if row["by"]))
        max_per_minute, starts = max(row["a_minute"] for row in rebalances), [row["since"] for row in rebalances]
        text = (
            f"Group {name} rebalanced {max_per_minute} times within a minute, because of {_names_text(causing_members)}"
        )
        yield Statement(
            "error", text, min(starts), max(starts), ", ", f"Group {name} rebalances without end", Stage.DEGRADES, 1,
            len(rebalances), {"group_id": name}, f"group_id={_quoted(name)}",
        )  # fmt: skip


def _metadata_storm_statements(rows: list[Row]) -> Iterator[Statement]:
    for row in rows[:3]:
        error_text = f", and got {row['error']}" if row["error"] else ""
        topic_text = f" for {row['topic']}" if row["topic"] else ""
        frequency = f"{_times_text(row['requests'])} within {duration(row['lasted_us'])}"
        text = f"{row['client']} requested Metadata{topic_text} from {row['broker']} {frequency}{error_text}"
        yield Statement(
            "warning", text, *_time_range([row]), ", ", f"{row['client']} requests Metadata again and again",
            Stage.DEGRADES, 1, row["requests"], _select_columns(row, "client", "broker"),
            f"api=Metadata and client={_quoted(row['client'])}",
        )  # fmt: skip


def _connection_statements(rows: list[Row]) -> Iterator[Statement]:
    churning_rows = [row for row in rows if row["peak_a_minute"] >= _CHURN and row["short"] * 2 > row["connections"]]
    for row in churning_rows[:3]:
        rate = f"up to {row['peak_a_minute']} connections a minute to {row['broker']}"
        text = f"{row['client']} opens {rate}, and most last less than 10 s"
        yield Statement(
            "warning", text, row["peak_at"], row["peak_at"], "; most of them ", f"{row['client']} keeps connecting",
            Stage.DEGRADES, 1, row["connections"], _select_columns(row, "client", "broker"),
            f"client={_quoted(row['client'])}",
        )  # fmt: skip


def _idle_close_statements(rows: list[Row]) -> Iterator[Statement]:
    for row in [row for row in rows if row["races"]][:3]:
        idle_text = f"connections that {row['broker']} closed after {duration(row['shortest_idle_us'])} of inactivity"
        text = f"{row['client']} lost {_count_text(row['races'], 'request')} to {idle_text}"
        yield Statement(
            "warning", text, row["last_race_at"], row["last_race_at"], ", last ", f"{row['client']} loses requests",
            Stage.DEGRADES, 1, row["races"], _select_columns(row, "client", "broker"),
            f"client={_quoted(row['client'])}",
        )  # fmt: skip


def _retry_statements(rows: list[Row]) -> Iterator[Statement]:
    for row in rows[:3]:
        if row["kind"] == "batch":
            batch_text = f"{_count_text(row['retries'], 'batch', 'batches')} twice to {row['broker']} ({row['why']})"
            text = f"{row['client']} sent {batch_text}: consumers may see these records again"
        elif row["kind"] == "refused":
            reason = f"that cannot succeed ({row['why']})"
            text = f"{row['client']} repeated a {row['api']} {reason} at {row['broker']} {_times_text(row['retries'])}"
        else:
            continue
        yield Statement(
            "warning", text, *_time_range([row]), ", ", f"{row['client']} repeats what was refused or written",
            Stage.DEGRADES, 1, row["retries"], _select_columns(row, "client", "broker", "kind"),
            f"client={_quoted(row['client'])}",
        )  # fmt: skip


def _anomaly_statements(rows: list[Row]) -> Iterator[Statement]:
    for cause in anomaly_causes(rows)[:4]:
        yield Statement("warning", cause.text, cause.begin, cause.end, ", ", "Slower, or more errors, than usual")


def _error_statements(rows: list[Row]) -> Iterator[Statement]:
    api_rows = [
        row for row in rows if row["by"] == "api" and not is_routine(row["value"], row["error"]) and _is_notable(row)
    ]
    for row in api_rows[:3]:
        topics = [
            topic_row["value"]
            for topic_row in rows
            if topic_row["by"] == "topic" and topic_row["error"] == row["error"]
        ]
        topic_text = f" about {_names_text(topics)}" if topics else ""
        frequency = f"{_times_text(row['responses'])} ({row['share']:.2%} of its responses)"
        share = row["share"] if row["responses"] >= _MIN_SHOWN else 0
        level = "error" if share >= _FAILING else "warning" if share >= _FAILING_OFTEN else "info"
        yield Statement(
            level, f"{row['value']} got {row['error']}{topic_text} {frequency}", *_time_range([row]), ", ",
            f"{row['value']} {'fails' if level == 'error' else 'often fails' if level == 'warning' else 'has errors'}",
            Stage.FAILS if level == "error" else Stage.DEGRADES, 1, row["responses"],
            _select_columns(row, "by", "value", "error"), f"api={row['value']} and error={row['error']}",
        )  # fmt: skip


def _is_notable(error: Row) -> bool:
    """Whether there are many errors, or many in a short time."""
    seconds = (error["last_at"] - error["first_at"]) / 1_000_000
    return bool(error["share"] >= _ERROR_SHARE or error["responses"] >= max(_MIN_BURST, seconds))


def _throttling_statements(rows: list[Row]) -> Iterator[Statement]:
    for row in [row for row in rows if row["since"] is None][:3]:
        hours = [
            hour_row["since"] for hour_row in rows
            if hour_row["since"] is not None and (hour_row["client"], hour_row["broker"]) == (row["client"],
                                                                                              row["broker"])
        ]  # fmt: skip
        frequency = f"{_times_text(row['throttled'])} by {row['broker']}"
        text = f"{row['client']} was throttled {frequency}, for {duration(row['total_throttle_us'])} in all"
        yield Statement(
            "info", text, min(hours, default=None), max(hours, default=0) + _HOUR_US if hours else None, ", ",
            f"{row['client']} is throttled", Stage.DEGRADES, 1, row["throttled"], _select_columns(row, "client",
                                                                                                  "broker"),
            f"throttle>0ms and client={_quoted(row['client'])}",
        )  # fmt: skip


def _partition_statements(rows: list[Row]) -> Iterator[Statement]:
    for direction, noun in (("written", "writes"), ("read", "reads")):
        hot_rows = [row for row in rows if (row[f"{direction}_skew"] or 0) >= _SKEW]
        for row in hot_rows[:2]:
            share = (
                f"{row[f'{direction}_share']:.0%} of the topic's {noun}, {row[f'{direction}_skew']:.1f}x its even share"
            )
            yield Statement(
                "info", f"Partition {row['partition']} of {row['topic']} receives {share}",
                title=f"Topic {row['topic']} is uneven", rows=_select_columns(row, "topic", "partition"),
                filter=f"topic={_quoted(row['topic'])} and partition={row['partition']}",
            )  # fmt: skip


#: The function that reads the table of a job; jobs without one have nothing to say.
STATEMENT_READERS: Final[dict[str, Callable[[list[Row]], Iterator[Statement]]]] = {
    "findings": _finding_statements,
    "rules": _finding_statements,
    "group-stalls": _stall_statements,
    "rebalances": _rebalance_statements,
    "anomalies": _anomaly_statements,
    "metadata-storms": _metadata_storm_statements,
    "connections": _connection_statements,
    "idle-closes": _idle_close_statements,
    "retries": _retry_statements,
    "errors": _error_statements,
    "throttling": _throttling_statements,
    "partitions": _partition_statements,
    "clients": _client_statements,
}


def _capitalize(text: str) -> str:
    """Return a text with a capital first letter, to begin a sentence."""
    return text[:1].upper() + text[1:]


def _select_columns(row: Row, *columns: str) -> Row:
    """Return the values by which the rows of a headline are found."""
    return {name: row[name] for name in columns}


def _time_range(rows: list[Row]) -> tuple[int | None, int | None]:
    """Return the first and last time of these rows."""
    return (
        min((row["first_at"] for row in rows if row["first_at"] is not None), default=None),
        max((row["last_at"] for row in rows if row["last_at"] is not None), default=None),
    )


def _same_hour(times_us: list[int]) -> int | None:
    """Return the hour (UTC) in which these times fall on the most days; None if these days are too few."""
    days_by_hour: dict[int, set[Any]] = defaultdict(set)
    for us in times_us:
        days_by_hour[to_datetime(us).hour].add(to_datetime(us).date())
    hour = max(days_by_hour, key=lambda hour: len(days_by_hour[hour]))
    return hour if len(days_by_hour[hour]) >= _MIN_DAYS else None


def to_datetime(us: int) -> datetime:
    """Return a time in microseconds since 1970 as UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def _count_text(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _times_text(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _names_text(names: list[str]) -> str:
    hidden_count = len(names) - _MAX_NAMES
    shown_names = ", ".join(names[:_MAX_NAMES])
    return f"{shown_names} and {hidden_count} more" if hidden_count > 0 else shown_names
