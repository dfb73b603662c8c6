"""Generations without an assignment: the leader has not sent it, or a member does not ask for it."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from kproxy.browse.overviews.groups import EventKind, StallKind
from kproxy.browse.overviews.groups.rebalances import LEADERS_BYTES
from kproxy.browse.overviews.groups.stalls.members import UNSYNCED
from kproxy.browse.overviews.groups.stalls.waits import SYNC_PATIENCE
from kproxy.spark.derived.groups import coming, is_kind, qualified
from kproxy.spark.derived.stalls import ago, have, ids, labels, stall_rows
from kproxy.spark.sentences import member_label, names, text, times

_PATIENCE_US = SYNC_PATIENCE // 1000

_NOT_ASKED = (
    "check whether the client can read the JoinGroup response (its log; that frame's findings), and whether it is "
    "blocked in its assignor or a rebalance callback"
)
_BROKER = "check the broker: it must write the assignment to __consumer_offsets first (min.insync.replicas)"
_LEADER = "check the leader (its assignor runs in the client): a blocked leader blocks the whole group"
_LOOPS = (
    "check its JoinGroup and SyncGroup responses: the client may be unable to read them, or they may all be "
    "REBALANCE_IN_PROGRESS because another member keeps joining"
)


def sync_stalls(events: DataFrame, generations: DataFrame) -> DataFrame:
    """Members that wait for their assignment, or do not ask for it.

    Args:
        events: Of `kproxy.spark.derived.stalls.rounds.steps`.
        generations: Of `kproxy.spark.derived.stalls.rounds.begun`.
    """
    classic = events.join(generations, "group_id", "left")
    heard = F.col("answered_us")
    # Answers of one round come together: only what comes a moment later is another round.
    next_begun = F.get(F.filter("begun", lambda at: at > heard + _PATIENCE_US), F.lit(0))
    joined, asked = is_kind(EventKind.JOIN) & F.col("ok"), is_kind(EventKind.SYNC) & F.col("error").isNull()
    until = F.when(joined, F.least("next_us", "closed_us", next_begun)).otherwise(
        F.coalesce("answered_us", "closed_us")
    )
    since = F.when(joined, heard).otherwise(F.col("asked_us"))
    lasted = F.coalesce(until, "watched_us") - since
    leads = F.when(joined, F.col("answer_bytes") - 3 * F.length("who") > LEADERS_BYTES)
    of_round = ["group_id", "life", "generation"]
    member = F.struct("since_us", "until_us", "lasted_us", "who", "label", "connection_id")
    each = classic.where(joined | asked).select(
        "group_id", "life", F.when(joined, F.col("generation")).otherwise(F.coalesce("generation", "epoch"))
        .alias("generation"), "who", "label", "connection_id", joined.alias("joined"), leads.alias("leads"),
        since.alias("since_us"), until.alias("until_us"), lasted.alias("lasted_us"),
    )  # fmt: skip
    late = F.col("lasted_us") > _PATIENCE_US
    by_round = each.groupBy(*of_round).agg(
        F.array_sort(F.collect_list(F.when(F.col("joined") & late, member))).alias("late"),
        F.array_sort(F.collect_list(F.when(~F.col("joined") & late, member))).alias("waiting_ones"),
        F.min(F.when(F.col("leads"), member)).alias("leader"),
    )
    leader_late = F.array_contains(ids(F.col("late")), F.col("leader.who"))
    by_round = by_round.withColumn("leader_late", F.coalesce(leader_late, F.lit(False)))
    by_leader = F.filter("late", lambda one: one["who"] == F.col("leader.who"))
    missing = F.col("leader_late") | (F.size("waiting_ones") == 0)
    those = F.when(F.col("leader_late"), by_leader).when(missing, F.col("late")).otherwise(F.col("waiting_ones"))
    found = by_round.where((F.size("late") > 0) | (F.size("waiting_ones") > 0))
    return _told_of(_spanned(found.withColumns({"missing": missing, "those": those})))


def _told_of(found: DataFrame) -> DataFrame:
    """In words."""
    missing, leader = F.col("missing"), F.col("leader.label")
    those, waiting = labels(F.col("those")), labels(F.col("waiting_ones"))
    lasted, generation = ago(F.col("lasted_us")), F.col("generation").cast("string")
    not_asked = text(names(those), " ", have(those), " sent no SyncGroup for ", lasted, " after the answer to ",
                     "JoinGroup (generation ", generation, ")")  # fmt: skip
    waited = F.when(F.size(waiting) > 0, text(", and ", names(waiting), " ", have(waiting), " to wait")).otherwise("")
    led = F.coalesce(F.array_contains(ids(F.col("waiting_ones")), F.col("leader.who")), F.lit(False))
    cause = (
        F.when(led, text("the leader, ", leader, ", has sent the assignment, but the coordinator did not respond"))
        .when(leader.isNull(), "the leader, which is not visible here, has not sent the assignment")
        .otherwise(text(leader, ", the leader, has not sent the assignment"))
    )
    sentence = (
        F.when(F.col("leader_late"), text(not_asked, "; it is the leader, so no member had an assignment", waited))
        .when(missing, text(not_asked, ": it had no assignment and read nothing"))
        .otherwise(text(names(waiting), " ", have(waiting), " waited ", lasted, " for the SyncGroup response in ",
                        "generation ", generation, ": ", cause))
    )  # fmt: skip
    nobody = F.array().cast("array<string>")
    blames = ~led & leader.isNotNull()
    return stall_rows(
        found, F.when(missing, StallKind.SYNC_MISSING.value).otherwise(StallKind.SYNC_WAITS.value),
        waiting=waiting, sentence=sentence, times=F.size("those").cast("long"),
        look=F.when(missing, _NOT_ASKED).when(led, _BROKER).otherwise(_LEADER),
        blamed=F.when(missing, those).when(blames, F.array(leader)).otherwise(nobody),
        blamed_ids=F.when(missing, ids(F.col("those"))).when(blames, F.array("leader.who")).otherwise(nobody),
    )  # fmt: skip


def _spanned(found: DataFrame) -> DataFrame:
    """From the first of `those` to the last; without an end if one has none."""
    ends = F.transform("those", lambda each: each["until_us"])
    last = F.array_max(F.transform("those", lambda each: each["since_us"] + each["lasted_us"]))
    first = F.col("those")[0]
    return found.withColumns(
        {
            "since_us": first["since_us"],
            "until_us": F.when(F.size(F.array_compact(ends)) == F.size("those"), F.array_max(ends)),
            "lasted_us": last - first["since_us"],
            "connection_id": first["connection_id"],
        }
    )


def loop_stalls(lines: DataFrame) -> DataFrame:
    """Clients that join again and again and are never given an assignment, perhaps each time as somebody new."""
    own = Window.partitionBy("group_id", "connection_id").orderBy("ts", "correlation_id")
    synced = F.col("api") == "SyncGroup"
    accepted = (F.col("kind") == "response") & F.col("errors").isNull() & F.col("request_ts").isNotNull()
    answers = qualified(lines).where(accepted & F.col("api").isin("JoinGroup", "SyncGroup"))
    placed = answers.withColumns(
        {
            "place": F.count_if(synced).over(own),
            "synced_us": coming(F.unix_micros("ts"), synced, ("group_id", "connection_id"), ("ts", "correlation_id")),
        }
    )
    asked = F.unix_micros("request_ts")
    found = placed.where(~synced).groupBy("group_id", "connection_id", "place").agg(
        F.count("*").alias("times"),
        F.min(asked).alias("since_us"),
        F.max(F.unix_micros("ts")).alias("last_us"),
        F.min("synced_us").alias("until_us"),
        F.max_by(F.struct("client_id", "member_id"), asked).alias("one"),
    ).where(F.col("times") >= UNSYNCED)  # fmt: skip
    found = found.withColumn("until_us", F.coalesce("until_us", "last_us"))
    found = found.withColumn("lasted_us", F.col("until_us") - F.col("since_us"))
    label = member_label(F.col("one.client_id"), F.coalesce("one.member_id", F.lit("")))
    return stall_rows(
        found, StallKind.JOIN_LOOP, severity=F.lit("error"), waiting=F.array(label), blamed=F.array(label),
        blamed_ids=F.array("one.member_id"), look=F.lit(_LOOPS),
        sentence=text(label, " has joined ", times(F.col("times")), " within ",
                      ago(F.col("last_us") - F.col("since_us")), " without getting an assignment"),
    )  # fmt: skip
