"""Headlines for operators: one sentence per problem, the most severe first.

Each function reads the table of one job and yields sentences; a missing table yields none. A sentence names the
problem, the place and the time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from dissectors.schemas.removed_versions import newest_release
from kproxy.spark.report.causes import anomalies
from kproxy.spark.report.contents import Figures
from kproxy.spark.routine_errors import is_routine
from kproxy.trace.formatting import duration

Row = dict[str, Any]

_LEVELS: Final = ("error", "warning", "info")
#: Thresholds: a partition's multiple of its even share, the length of a stall (us), the share of errors among an API's
#: responses, connections per minute.
_SKEW, _STALL_US, _ERROR_SHARE, _CHURN = 3.0, 5_000_000, 0.001, 60
#: This many errors, at one per second or more from the first to the last, are a burst.
_BURST = 10
_HOUR_US = 3_600_000_000
#: A group that stalls at the same hour on this many days does so every day.
_NIGHTS = 3
_NAMES = 3
#: Rules that other tables cover in more detail, by code or family: group-stalls has family G.
_COVERED_ELSEWHERE: Final = (
    "C016", "C017", "C018", "G", "S005", "S009", "S012", "S033", "S034", "S036", "V002", "V011",
)  # fmt: skip
#: The table whose headlines come last: they are about a future upgrade, all others about current problems.
_UPGRADE: Final = "clients"


@dataclass(frozen=True, slots=True)
class Headline:
    """A sentence, its level (error, warning, info), and its section or table."""

    level: str
    text: str
    about: str


class Statement(NamedTuple):
    """A sentence without full stop: problem and place; and the time range in us (None: all of the observed time)."""

    level: str
    text: str
    begin: int | None = None
    end: int | None = None
    before: str = ", "  # before the time


def headlines(figures: Figures) -> list[Headline]:
    """Return the sentences of a report: current problems, most severe first, then future ones."""
    facts = figures.facts
    found = [
        Headline(
            each.level,
            f"{each.text}{each.before}{_when(each.begin or facts.first_us or 0, each.end or facts.last_us or 0)}.",
            about,
        )
        for about, read in _READERS.items()
        if about in figures.tables
        for each in read(figures.tables[about].records())
    ]
    return sorted(found, key=urgency) or [Headline("info", "No problems found.", "latency")]


def urgency(headline: Headline) -> tuple[bool, int]:
    """The sort key of headlines: current problems before what an upgrade will break, then by severity."""
    return headline.about == _UPGRADE, _LEVELS.index(headline.level)


def _clients(rows: list[Row]) -> Iterator[Statement]:
    releases: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["api"] is None and row["verdict"] in ("refused", "unknown"):
            releases[row["verdict"], row["refused_from"] or newest_release()].append(row)
    for (verdict, release), found in sorted(releases.items()):
        names = list(dict.fromkeys(row["client"] for row in found))
        if verdict == "refused":
            text = f"{_count(len(names), 'client')} will be refused by Kafka {release}: {_names(names)}"
            yield Statement("warning", text, *_time_range(found), "; active ")
        else:
            why = "it removed versions that they use, but they negotiate versions"
            text = f"{_count(len(names), 'client')} may be refused by Kafka {release} ({why}): {_names(names)}"
            yield Statement("info", text, *_time_range(found), "; active ")


def _findings(rows: list[Row]) -> Iterator[Statement]:
    rules: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["severity"] in ("error", "warning") and not row["code"].startswith(_COVERED_ELSEWHERE):
            rules[row["code"], row["name"]].append(row)
    for (code, name), found in list(rules.items())[:6]:
        times = sum(row["findings"] for row in found)
        clients, brokers = (list(dict.fromkeys(row[end] or "?" for row in found)) for end in ("client", "broker"))
        where = f"{_names(clients)} at {_names(brokers)}"
        yield Statement(
            found[0]["severity"], f"{code} {name}: {_count(times, 'occurrence')}, {where}", *_time_range(found)
        )


def _group_stalls(rows: list[Row]) -> Iterator[Statement]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["severity"] != "info" and (row["duration_us"] or 0) >= _STALL_US:
            groups[row["group_id"]].append(row)
    for name, stalls in list(groups.items())[:4]:
        longest = max(stalls, key=lambda row: row["duration_us"])
        took = duration(longest["duration_us"])
        blamed = f", waiting for {_names(longest['blamed'])}" if longest.get("blamed") else ""
        starts = [row["since"] for row in stalls]
        if (hour := _same_hour(starts)) is not None:
            days = len({_moment(each).date() for each in starts if _moment(each).hour == hour})
            often = f"every day at {hour:02d}:00 UTC ({days} days)"
        else:
            often = _times(len(stalls))
        yield Statement("error", f"Group {name} stalls {often}, for up to {took}{blamed}", min(starts), max(starts))


def _rebalances(rows: list[Row]) -> Iterator[Statement]:
    storms: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["storm"]:
            storms[row["group_id"]].append(row)
    for name, found in list(storms.items())[:4]:
        by = list(dict.fromkeys(row["by"] for row in found if row["by"]))
        most, starts = max(row["a_minute"] for row in found), [row["since"] for row in found]
        text = f"Group {name} rebalanced {most} times within a minute, because of {_names(by)}"
        yield Statement("error", text, min(starts), max(starts))


def _metadata_storms(rows: list[Row]) -> Iterator[Statement]:
    for row in rows[:3]:
        why = f", and got {row['error']}" if row["error"] else ""
        about = f" for {row['topic']}" if row["topic"] else ""
        often = f"{_times(row['requests'])} within {duration(row['lasted_us'])}"
        text = f"{row['client']} requested Metadata{about} from {row['broker']} {often}{why}"
        yield Statement("warning", text, *_time_range([row]))


def _connections(rows: list[Row]) -> Iterator[Statement]:
    churning = [row for row in rows if row["peak_a_minute"] >= _CHURN and row["short"] * 2 > row["connections"]]
    for row in churning[:3]:
        rate = f"up to {row['peak_a_minute']} connections a minute to {row['broker']}"
        text = f"{row['client']} opens {rate}, and most last less than 10 s"
        yield Statement("warning", text, row["peak_at"], row["peak_at"], "; most of them ")


def _idle_closes(rows: list[Row]) -> Iterator[Statement]:
    for row in [row for row in rows if row["races"]][:3]:
        idle = f"connections that {row['broker']} closed after {duration(row['shortest_idle_us'])} of inactivity"
        text = f"{row['client']} lost {_count(row['races'], 'request')} to {idle}"
        yield Statement("warning", text, row["last_race_at"], row["last_race_at"], ", last ")


def _retries(rows: list[Row]) -> Iterator[Statement]:
    for row in rows[:3]:
        if row["kind"] == "batch":
            batches = f"{_count(row['retries'], 'batch', 'batches')} twice to {row['broker']} ({row['why']})"
            text = f"{row['client']} sent {batches}: consumers may see these records again"
        elif row["kind"] == "refused":
            why = f"that cannot succeed ({row['why']})"
            text = f"{row['client']} repeated a {row['api']} {why} at {row['broker']} {_times(row['retries'])}"
        else:
            continue
        yield Statement("warning", text, *_time_range([row]))


def _anomalies(rows: list[Row]) -> Iterator[Statement]:
    for cause in anomalies(rows)[:4]:
        yield Statement("warning", cause.text, cause.begin, cause.end)


def _errors(rows: list[Row]) -> Iterator[Statement]:
    of_apis = [
        row for row in rows if row["by"] == "api" and not is_routine(row["value"], row["error"]) and _is_notable(row)
    ]
    for row in of_apis[:3]:
        topics = [each["value"] for each in rows if each["by"] == "topic" and each["error"] == row["error"]]
        about = f" about {_names(topics)}" if topics else ""
        often = f"{_times(row['responses'])} ({row['share']:.2%} of its responses)"
        yield Statement("info", f"{row['value']} got {row['error']}{about} {often}", *_time_range([row]))


def _is_notable(error: Row) -> bool:
    """Whether there are many errors, or many in a short time."""
    seconds = (error["last_at"] - error["first_at"]) / 1_000_000
    return bool(error["share"] >= _ERROR_SHARE or error["responses"] >= max(_BURST, seconds))


def _throttling(rows: list[Row]) -> Iterator[Statement]:
    for row in [row for row in rows if row["since"] is None][:3]:
        of_hours = [
            each["since"] for each in rows
            if each["since"] is not None and (each["client"], each["broker"]) == (row["client"], row["broker"])
        ]  # fmt: skip
        often = f"{_times(row['throttled'])} by {row['broker']}"
        text = f"{row['client']} was throttled {often}, for {duration(row['total_throttle_us'])} in all"
        yield Statement(
            "info", text, min(of_hours, default=None), max(of_hours, default=0) + _HOUR_US if of_hours else None
        )


def _partitions(rows: list[Row]) -> Iterator[Statement]:
    for way, verb in (("written", "writes"), ("read", "reads")):
        hot = [row for row in rows if (row[f"{way}_skew"] or 0) >= _SKEW]
        for row in hot[:2]:
            share = f"{row[f'{way}_share']:.0%} of the topic's {verb}, {row[f'{way}_skew']:.1f}x its even share"
            yield Statement("info", f"Partition {row['partition']} of {row['topic']} receives {share}")


_READERS: Final[dict[str, Callable[[list[Row]], Iterator[Statement]]]] = {
    "findings": _findings,
    "rules": _findings,
    "group-stalls": _group_stalls,
    "rebalances": _rebalances,
    "anomalies": _anomalies,
    "metadata-storms": _metadata_storms,
    "connections": _connections,
    "idle-closes": _idle_closes,
    "retries": _retries,
    "errors": _errors,
    "throttling": _throttling,
    "partitions": _partitions,
    _UPGRADE: _clients,
}


def _time_range(rows: list[Row]) -> tuple[int | None, int | None]:
    """Return the first and last time of these rows."""
    return (
        min((row["first_at"] for row in rows if row["first_at"] is not None), default=None),
        max((row["last_at"] for row in rows if row["last_at"] is not None), default=None),
    )


def _when(begin: int, end: int) -> str:
    """Return ``2026-11-21 13:00-14:00 UTC``, or with both dates."""
    first, last = f"{_moment(begin):%Y-%m-%d %H:%M}", f"{_moment(end):%Y-%m-%d %H:%M}"
    if first == last:
        return f"{first} UTC"
    return f"{first}-{last[11:]} UTC" if first[:10] == last[:10] else f"{first} to {last} UTC"


def _same_hour(moments: list[int]) -> int | None:
    """Return the hour (UTC) of most of these times, if it is on enough days."""
    days: dict[int, set[Any]] = defaultdict(set)
    for at in moments:
        days[_moment(at).hour].add(_moment(at).date())
    hour = max(days, key=lambda each: len(days[each]))
    return hour if len(days[hour]) >= _NIGHTS else None


def _moment(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def _count(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _names(names: list[str]) -> str:
    more = len(names) - _NAMES
    listed = ", ".join(names[:_NAMES])
    return f"{listed} and {more} more" if more > 0 else listed
