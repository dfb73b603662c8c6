"""What an operator should read first: a sentence for each thing that stands out, the worst first.

Each function reads the table of one job and yields sentences; a job that is not there has none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from dissectors.removed import newest_release
from kproxy.outputs.text import duration
from kproxy.spark.report.figures import Figures

Row = dict[str, Any]

_LEVELS: Final = ("error", "warning", "info")
#: What stands out: a partition with so many times its part, a stall so long (us), errors in such a part of an API's
#: answers, so many connections a minute.
_SKEW, _STALL_US, _ERROR_SHARE, _CHURN = 3.0, 5_000_000, 0.001, 60
#: So many errors, one a second or more from the first to the last, are a burst.
_BURST = 10
#: A group that stalls at the same hour on so many days does so every day.
_NIGHTS = 3
_NAMES = 3
#: Rules of what other tables tell more of.
_TOLD: Final = frozenset(["C016", "C017", "C018", "S005", "S009", "S012", "S033", "S034", "S036", "V002", "V011"])
#: Errors that belong to how groups work.
_ORDINARY: Final = frozenset(["MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS"])


@dataclass(frozen=True, slots=True)
class Headline:
    """A sentence, its level (error, warning, info), and the section or table that it is about."""

    level: str
    text: str
    about: str


def headlines(figures: Figures) -> list[Headline]:
    """The sentences of a report, the worst first."""
    found = [
        Headline(level, text, about)
        for about, read in _READERS.items()
        if about in figures.tables
        for level, text in read(figures.tables[about].records())
    ]
    return sorted(found, key=lambda each: _LEVELS.index(each.level)) or [
        Headline("info", "Nothing stands out.", "latency")
    ]


def _clients(rows: list[Row]) -> Iterator[tuple[str, str]]:
    releases: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row["api"] is None and row["verdict"] in ("refused", "unknown"):
            releases[row["verdict"], row["refused_from"] or newest_release()].append(row["client"])
    for (verdict, release), named in sorted(releases.items()):
        names = list(dict.fromkeys(named))
        if verdict == "refused":
            yield "error", f"{_count(len(names), 'client')} will be refused by Kafka {release}: {_names(names)}."
        else:
            why = "what they use is gone there, but they ask brokers what they serve"
            yield "info", f"{_count(len(names), 'client')} may be refused by Kafka {release} ({why}): {_names(names)}."


def _findings(rows: list[Row]) -> Iterator[tuple[str, str]]:
    rules: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["severity"] in ("error", "warning") and row["code"] not in _TOLD:
            rules[row["code"], row["name"]].append(row)
    for (code, name), found in list(rules.items())[:6]:
        times = sum(row["findings"] for row in found)
        clients = list(dict.fromkeys(row["client"] or "?" for row in found))
        yield found[0]["severity"], f"{code} {name}: {_times(times)}, with {_names(clients)}."


def _group_stalls(rows: list[Row]) -> Iterator[tuple[str, str]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["severity"] != "info" and (row["duration_us"] or 0) >= _STALL_US:
            groups[row["group_id"]].append(row)
    for name, stalls in list(groups.items())[:4]:
        longest = max(stalls, key=lambda row: row["duration_us"])
        took = duration(longest["duration_us"])
        blamed = f", waiting for {_names(longest['blamed'])}" if longest.get("blamed") else ""
        if (hour := _same_hour([row["since"] for row in stalls])) is not None:
            days = len({_moment(row["since"]).date() for row in stalls if _moment(row["since"]).hour == hour})
            yield (
                "error",
                f"Group {name} stalls every day at {hour:02d}:00 UTC ({days} days), for up to {took}{blamed}.",
            )
        else:
            yield "error", f"Group {name} stalls {_times(len(stalls))}, for up to {took}{blamed}."


def _rebalances(rows: list[Row]) -> Iterator[tuple[str, str]]:
    storms: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["storm"]:
            storms[row["group_id"]].append(row)
    for name, found in list(storms.items())[:4]:
        by = list(dict.fromkeys(row["by"] for row in found if row["by"]))
        most = max(row["a_minute"] for row in found)
        yield "error", f"Group {name} rebalanced {most} times within a minute; {_names(by)} began it."


def _metadata_storms(rows: list[Row]) -> Iterator[tuple[str, str]]:
    for row in rows[:3]:
        why = f", answered with {row['error']}" if row["error"] else ""
        about = f" for {row['topic']}" if row["topic"] else ""
        often = f"{_times(row['requests'])} within {duration(row['lasted_us'])}"
        yield "warning", f"{row['client']} asked for Metadata{about} {often}{why}."


def _connections(rows: list[Row]) -> Iterator[tuple[str, str]]:
    churning = [row for row in rows if row["peak_a_minute"] >= _CHURN and row["short"] * 2 > row["connections"]]
    for row in churning[:3]:
        rate = f"up to {row['peak_a_minute']} connections a minute to {row['broker']}"
        yield "warning", f"{row['client']} opens {rate}, and most live less than 10 s."


def _idle_closes(rows: list[Row]) -> Iterator[tuple[str, str]]:
    for row in [row for row in rows if row["races"]][:3]:
        idle = f"connections that {row['broker']} closed after {duration(row['shortest_idle_us'])} of silence"
        yield "warning", f"{row['client']} lost {_count(row['races'], 'request')} to {idle}."


def _retries(rows: list[Row]) -> Iterator[tuple[str, str]]:
    for row in rows[:3]:
        if row["kind"] == "batch":
            batches = _count(row["retries"], "batch", "batches")
            yield (
                "warning",
                f"{row['client']} sent {batches} twice ({row['why']}): consumers may see these records again.",
            )
        elif row["kind"] == "refused":
            why = f"that cannot succeed ({row['why']})"
            yield "warning", f"{row['client']} repeats a {row['api']} {why}: {_times(row['retries'])}."


def _anomalies(rows: list[Row]) -> Iterator[tuple[str, str]]:
    hours: dict[tuple[Any, ...], Row] = {}
    for row in rows:  # of an API in an hour what is most unusual: it, one client's, or one broker's
        if row["measure"] != "rate":
            hours.setdefault((row["since"], row["api"], row["measure"]), row)
    for row in list(hours.values())[:4]:
        of = f" of {row['value']}" if row["value"] else ""
        yield "warning", f"{row['api']}{of}, {_clock(row['since'])[:16]}: {row['sentence']}."


def _errors(rows: list[Row]) -> Iterator[tuple[str, str]]:
    of_apis = [row for row in rows if row["by"] == "api" and row["error"] not in _ORDINARY and _stands_out(row)]
    for row in of_apis[:3]:
        topics = [each["value"] for each in rows if each["by"] == "topic" and each["error"] == row["error"]]
        about = f" about {_names(topics)}" if topics else ""
        often = f"{_times(row['responses'])} ({row['share']:.2%} of its answers)"
        between = f"between {_clock(row['first_at'])} and {_clock(row['last_at'])}"
        yield "info", f"{row['value']} was answered with {row['error']}{about} {often}, {between}."


def _stands_out(error: Row) -> bool:
    """Whether there is much of it, or much of it in a short time."""
    seconds = (error["last_at"] - error["first_at"]) / 1_000_000
    return bool(error["share"] >= _ERROR_SHARE or error["responses"] >= max(_BURST, seconds))


def _throttling(rows: list[Row]) -> Iterator[tuple[str, str]]:
    for row in [row for row in rows if row["since"] is None][:3]:
        often = f"{_times(row['throttled'])} by {row['broker']}"
        yield "info", f"{row['client']} was throttled {often}, for {duration(row['total_throttle_us'])} in all."


def _partitions(rows: list[Row]) -> Iterator[tuple[str, str]]:
    for way, verb in (("written", "written to"), ("read", "read from")):
        hot = [row for row in rows if (row[f"{way}_skew"] or 0) >= _SKEW]
        for row in hot[:2]:
            part = f"{row[f'{way}_share']:.0%} of what is {verb} it, {row[f'{way}_skew']:.1f} times its part"
            yield "info", f"Partition {row['partition']} of {row['topic']} has {part}."


_READERS: Final[dict[str, Callable[[list[Row]], Iterator[tuple[str, str]]]]] = {
    "clients": _clients,
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
}


def _same_hour(moments: list[int]) -> int | None:
    """The hour (UTC) that most of these times have, on enough days."""
    days: dict[int, set[Any]] = defaultdict(set)
    for at in moments:
        days[_moment(at).hour].add(_moment(at).date())
    hour = max(days, key=lambda each: len(days[each]))
    return hour if len(days[hour]) >= _NIGHTS else None


def _moment(us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)


def _clock(us: int) -> str:
    return f"{_moment(us):%Y-%m-%d %H:%M:%S}"


def _count(count: int, noun: str, plural: str | None = None) -> str:
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def _names(names: list[str]) -> str:
    more = len(names) - _NAMES
    shown = ", ".join(names[:_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown
