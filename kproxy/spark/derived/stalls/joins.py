"""JoinGroup requests that wait: the coordinator answers when every member has joined."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kproxy.browse.overviews.groups import StallKind
from kproxy.browse.overviews.groups.explanations import REJOIN
from kproxy.browse.overviews.groups.stalls.members import LEAST_SILENCE
from kproxy.browse.overviews.groups.stalls.waits import JOIN_PATIENCE
from kproxy.spark.derived.groups import qualified
from kproxy.spark.derived.stalls import ago, have, ids, labels, severity, stall_rows
from kproxy.spark.sentences import names, text, times

_SECOND_US = 1_000_000
_BEATS = ("Heartbeat", "OffsetCommit")

_KILLED = (
    "find out why that process disappeared (killed, or a static member); the coordinator waits for it until its "
    "session.timeout.ms expires"
)
_BUSY = (
    "check the poll loop of the missing member: it joins only in poll(), so check its work between two polls; the "
    "coordinator gives up on it after its max.poll.interval.ms"
)
_STOPPED = "find out what blocks the silent process (a debugger, garbage collection, no CPU); check session.timeout.ms"
_UNSEEN = (
    "check for members that do not use this proxy (kafka-consumer-groups --describe --members lists all); a new group "
    "waits for group.initial.rebalance.delay.ms"
)
_FORGOTTEN = (
    "the coordinator lost this request: check its log; the client gives up after its request timeout and rejoins"
)


def join_stalls(lines: DataFrame, found: DataFrame) -> DataFrame:
    """Rounds of joining that took long, with those that came last, or did not come at all.

    Args:
        lines: Rows of TABLE.
        found: Of `kproxy.spark.derived.stalls.rounds.rounds`.
    """
    slow = found.where(F.col("begun_us") - F.col("first_us") > JOIN_PATIENCE // 1000)
    first, last, end = F.col("first_us"), F.col("last_us"), F.col("begun_us")
    gone = F.transform(
        F.filter(F.coalesce("left", F.array()), lambda each: (each["asked_us"] <= end) & (each["asked_us"] > _from())),
        lambda each: each["who"],
    )
    here = ids(F.col("members"))
    missing = F.filter(
        F.coalesce("before", F.array()),
        lambda each: ~F.array_contains(here, each["who"]) & ~F.array_contains(gone, each["who"]),
    )
    late = F.filter(
        "members",
        lambda each: (each["asked_us"] > first + JOIN_PATIENCE // 1000) & (each["asked_us"] > last - _SECOND_US),
    )
    answered = F.col("generation").isNotNull()
    left_out = ~answered & F.exists("others", lambda at: (at > first + _SECOND_US) & (at < end - _SECOND_US))
    blamed = F.when(left_out, F.array()).when(F.size(missing) > 0, missing).when(answered, late).otherwise(F.array())
    lasted = F.coalesce("until_us", "watched_us") - first
    slow = slow.withColumns({"lasted_us": lasted, "left_out": left_out, "blamed_ones": blamed})
    return _told_of(_watched(lines, slow))


def _from() -> Column:
    """From when on somebody who left was no member of the generation before."""
    return F.array_min(F.transform(F.coalesce("before", F.array()), lambda each: each["asked_us"]))


def _watched(lines: DataFrame, slow: DataFrame) -> DataFrame:
    """With `reasons`: who is waited for, and what those are seen to do meanwhile."""
    of_round = ["group_id", "round", "first_us", "begun_us", "until_us", "lasted_us", "members", "connection_id",
                "left_out"]  # fmt: skip
    each = slow.select(*of_round, F.explode_outer("blamed_ones").alias("one"))
    answers = (F.col("kind") == "response") & F.col("api").isin(*_BEATS) & F.col("group_id").isNotNull()
    heard = qualified(lines).where(answers).select(
        F.col("group_id").alias("of_group"), F.col("member_id").alias("beats"), F.unix_micros("ts").alias("at"),
        (F.get("errors", F.lit(0))["name"] == REJOIN).alias("told"),
    )  # fmt: skip
    came = F.when(F.col("one.asked_us") > F.col("first_us"), F.col("one.asked_us"))
    until = F.coalesce(came, "begun_us")
    meanwhile = (
        (F.col("of_group") == F.col("group_id"))
        & (F.col("beats") == F.col("one.who"))
        & F.col("at").between(F.col("first_us"), until)
    )
    watched = (
        each.join(heard, meanwhile, "left")
        .groupBy(*of_round, "one")
        .agg(F.count_if("told").alias("told"), F.max("at").alias("beat_us"))
    )
    closed = F.col("one.closed_us") < F.col("begun_us")
    silence = until - F.coalesce("beat_us", "first_us")
    silent = silence > LEAST_SILENCE // 1000
    why = (
        F.when(closed, text("its connection was closed by the ", F.col("one.closed_by"), " ",
               ago(F.col("begun_us") - F.col("one.closed_us")), " earlier, without LeaveGroup"))
        .when(F.col("told") > 0, text(F.when(silent, "it went silent").otherwise("it sends heartbeats"), ", was told ",
              times(F.col("told")), " to rejoin but does not"))
        .when(silent, text("silent for ", ago(silence)))
        .otherwise("has not rejoined yet")
    )  # fmt: skip
    rank = F.when(closed, 0).when(F.col("told") > 0, 1).otherwise(2)
    named = F.struct(rank.alias("rank"), F.col("one.label").alias("label"), F.col("one.who").alias("who"),
                     why.alias("why"))  # fmt: skip
    reason = F.when(F.col("one").isNotNull(), named)
    return watched.groupBy(*of_round).agg(F.array_sort(F.collect_list(reason)).alias("reasons"))


def _told_of(slow: DataFrame) -> DataFrame:
    """In words."""
    blamed_ids = ids(F.col("reasons"))
    waiting = labels(F.filter("members", lambda each: ~F.array_contains(blamed_ids, each["who"])))
    shown = F.transform("reasons", lambda each: text(each["label"], " (", each["why"], ")"))
    lasted = ago(F.col("lasted_us"))
    wait = text(names(waiting), " ", have(waiting), " waited ", lasted, " for the JoinGroup response")
    some, left_out = F.size("reasons") > 0, F.col("left_out")
    sentence = (
        F.when(left_out, text("JoinGroup of ", names(waiting), " had no response for ", lasted, ", although others",
                              " that joined in the same round got a generation"))
        .when(some, text(wait, ": the coordinator waited until every member had joined; missing: ", names(shown)))
        .otherwise(text(wait, ", but no member visible here was missing"))
    )  # fmt: skip
    worst = F.get("reasons", F.lit(0))["rank"]
    look = F.when(left_out, _FORGOTTEN).when(~some, _UNSEEN)
    kind = F.when(left_out, StallKind.JOIN_UNANSWERED.value).otherwise(StallKind.JOIN_WAITS.value)
    return stall_rows(
        slow, kind, severity=F.when(left_out, "error").otherwise(severity(F.col("lasted_us"))), sentence=sentence,
        since_us=F.col("first_us"), waiting=waiting, blamed=labels(F.col("reasons")), blamed_ids=blamed_ids,
        look=look.when(worst == 0, _KILLED).when(worst == 1, _BUSY).otherwise(_STOPPED),
        times=F.size("members").cast("long"),
    )  # fmt: skip
