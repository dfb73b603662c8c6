"""What stands still with one member: heartbeats that stop, answers that do not come, refusals, who is lost."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from kproxy.browse.overviews.groups import EventKind, Protocol, StallKind, explanations
from kproxy.browse.overviews.groups.model import ENOUGH_GAPS, LAST_GAPS
from kproxy.browse.overviews.groups.stalls.members import (
    LEAST_LOSS,
    LEAST_SILENCE,
    LEAST_SILENCE_OF_EPOCHS,
    MISSED,
    PATIENCE,
    SESSION,
    TOLD,
    TOLD_FOR,
)
from kproxy.spark.derived.groups import coming, group_events, is_kind
from kproxy.spark.derived.stalls import ago, severity, stall_rows
from kproxy.spark.sentences import chosen, duration, text, times

_LOOK = {
    StallKind.SILENT: "find out what blocks the process (a debugger, garbage collection, a suspended container, no "
    "CPU); after session.timeout.ms, other members get its partitions",
    StallKind.LOST: "check whether it was killed or crashed; session.timeout.ms limits the wait (a static member "
    "gets its partitions back when it restarts)",
    StallKind.UNANSWERED: "check whether the coordinator answers others, and whether something in between drops "
    "packets",
    StallKind.NOT_REJOINING: "check what the application does between two polls; after max.poll.interval.ms the group "
    "continues without it",
}
_REFUSALS = (StallKind.REFUSED.value, StallKind.FENCED.value, StallKind.COMMIT_REFUSED.value)


def member_stalls(lines: DataFrame, generations: DataFrame) -> DataFrame:
    """Stalls of single members, over all that members ask.

    Args:
        lines: Rows of TABLE.
        generations: Of `kproxy.spark.derived.stalls.rounds.begun`: who is not in a generation is out.
    """
    events = _looked_around(group_events(lines))
    found = events.select(F.explode(F.array_compact(F.array(_silent(), _lost(), _unanswered(), _told(), _refused())))
                          .alias("found")).select("found.*")  # fmt: skip
    return _told_of(_ended(_together(found), generations))


def _looked_around(events: DataFrame) -> DataFrame:
    """With what is before and behind each event of its member."""
    own = Window.partitionBy("group_id", "who", "own").orderBy("asked_us", "correlation_id")
    member = Window.partitionBy("group_id", "who").orderBy("asked_us", "correlation_id")
    of_kind = Window.partitionBy("group_id", "who", "kind").orderBy("asked_us", "correlation_id")
    of_member = ("group_id", "who")
    late = ~is_kind(EventKind.JOIN, EventKind.SYNC) & (F.col("answered_us") - F.col("asked_us") > PATIENCE // 1000)
    base = F.when(is_kind(EventKind.SYNC, EventKind.JOIN) | late, F.col("answered_us")).otherwise(F.col("asked_us"))
    classic = F.coalesce(F.col("protocol") == Protocol.CLASSIC.value, F.lit(True))
    follows = F.lag("kind").over(own).isin(EventKind.HEARTBEAT.value, EventKind.SYNC.value) | (
        ~classic & (F.lag("kind").over(own) == EventKind.JOIN.value)
    )
    beat = is_kind(EventKind.HEARTBEAT) & follows
    floor = F.when(classic, F.lit(LEAST_SILENCE // 1000)).otherwise(F.lit(LEAST_SILENCE_OF_EPOCHS // 1000))
    ok, joins = F.col("ok"), is_kind(EventKind.JOIN)
    events = events.withColumns({"classic": classic, "floor_us": floor, "base_us": base}).withColumns(
        {
            "next_us": F.lead("asked_us").over(own),
            "gap_us": F.when(beat, F.col("asked_us") - F.lag("base_us").over(own)),
            "accepts": F.count_if(ok).over(of_kind) + F.count_if(joins & ok).over(member),
            "accepted_us": F.least(
                coming(F.col("answered_us"), ok, (*of_member, "kind")),
                coming(F.col("answered_us"), joins & ok, of_member),
            ),
            # What says that a member has heard it: it joins, or it is told that all is well.
            "heard": F.count_if(joins | (F.col("own") & ok & F.col("classic"))).over(member),
            "rejoins_us": coming(F.col("asked_us"), joins | is_kind(EventKind.LEAVE), of_member),
        }
    )
    # A gap in which heartbeats were missed says nothing of how far they usually lie apart.
    before = own.rowsBetween(-LAST_GAPS, -1)
    usual = F.when(F.count("gap_us").over(before) >= ENOUGH_GAPS, F.max("gap_us").over(before))
    missed = F.col("gap_us") > F.greatest(MISSED * F.coalesce(usual, F.lit(0)), F.col("floor_us"))
    events = events.withColumn("gap_us", F.when(~(usual.isNotNull() & missed), F.col("gap_us")))
    until = own.rowsBetween(1 - LAST_GAPS, 0)
    usual = F.when(F.count("gap_us").over(until) >= ENOUGH_GAPS, F.max("gap_us").over(until))
    return events.withColumn("usual_us", usual)


def _row(kind: StallKind | Column, when: Column, **columns: Column) -> Column:
    """What an event says of a stall; null if it says nothing."""
    usual = {
        "since_us": F.col("answered_us"), "last_us": F.col("answered_us"), "until_us": F.lit(None).cast("long"),
        "error": F.col("error"), "island": F.lit(0).cast("long"),
    }  # fmt: skip
    same = ("group_id", "who", "label", "connection_id", "kind", "closed_by", "usual_us", "traced_us", "floor_us")
    stall = F.lit(kind.value) if isinstance(kind, StallKind) else kind
    values = usual | columns
    named = (column.alias(name) for name, column in values.items())
    return F.when(when, F.struct(stall.alias("stall"), *same, *named))


def _is_member() -> Column:
    """Whether a request leaves its sender a member, as far as itself knows."""
    error = F.col("error")
    joined = is_kind(EventKind.HEARTBEAT, EventKind.SYNC) | (is_kind(EventKind.JOIN) & ~F.col("classic"))
    return joined & (error.isNull() | (error == explanations.REJOIN))


def _silent() -> Column:
    closed = F.when(F.col("closed_us") > F.col("base_us"), F.col("closed_us"))
    until = F.least("next_us", closed)
    limit = F.greatest(MISSED * F.col("usual_us"), F.col("floor_us"))
    silent = F.col("usual_us").isNotNull() & (F.coalesce(until, "watched_us") - F.col("base_us") > limit)
    return _row(
        StallKind.SILENT,
        _is_member() & F.col("answered_us").isNotNull() & silent,
        since_us=F.col("base_us"), until_us=until, error=F.lit(None).cast("string"),
    )  # fmt: skip


def _lost() -> Column:
    stays = (
        F.col("own") & ~is_kind(EventKind.LEAVE) & (F.col("error").isNull() | (F.col("error") == explanations.REJOIN))
    )
    gone = F.col("closed_us").isNotNull() & (F.col("next_us").isNull() | (F.col("next_us") > F.col("closed_us")))
    return _row(
        StallKind.LOST, stays & gone, since_us=F.col("closed_us"), until_us=F.col("next_us"),
        error=F.lit(None).cast("string"),
    )  # fmt: skip


def _unanswered() -> Column:
    held = is_kind(EventKind.JOIN, EventKind.SYNC) & F.col("classic")
    until = F.coalesce("answered_us", "closed_us")
    return _row(
        StallKind.UNANSWERED, ~held & (F.col("ends_us") - F.col("asked_us") > PATIENCE // 1000),
        since_us=F.col("asked_us"), last_us=F.col("asked_us"), until_us=until, error=F.lit(None).cast("string"),
    )  # fmt: skip


def _told() -> Column:
    told = F.col("own") & (F.col("error") == explanations.REJOIN) & ~is_kind(EventKind.JOIN)
    until = F.coalesce("rejoins_us", "closed_us")
    return _row(StallKind.NOT_REJOINING, told, until_us=until, island=F.col("heard"))


def _refused() -> Column:
    error, commit = F.col("error"), is_kind(EventKind.COMMIT)
    ordinary = error.isin(*explanations.ORDINARY, *explanations.DENIED) | ((error == explanations.REJOIN) & ~commit)
    fenced = error.isin(*explanations.FENCED)
    kind = F.when(fenced, StallKind.FENCED.value).when(commit, StallKind.COMMIT_REFUSED.value)
    kind = kind.otherwise(StallKind.REFUSED.value)
    return _row(kind, error.isNotNull() & ~ordinary, until_us=F.col("accepted_us"), island=F.col("accepts"))


def _together(found: DataFrame) -> DataFrame:
    """One row for what goes on without an interruption: requests that wait at once, refusals in a row."""
    own = Window.partitionBy("group_id", "who", "stall").orderBy("since_us")
    reaches = F.max(F.coalesce("until_us", F.lit(2**62))).over(own.rowsBetween(Window.unboundedPreceding, -1))
    apart = ~F.col("stall").isin(*_REFUSALS, StallKind.NOT_REJOINING.value) & (F.col("since_us") > reaches)
    placed = found.withColumn("apart", F.coalesce(apart, F.lit(False)))
    placed = placed.withColumn("place", F.count_if("apart").over(own))
    first = F.min(F.struct("since_us", "connection_id", "usual_us", "floor_us"))
    return placed.groupBy("group_id", "who", "stall", "error", "island", "place").agg(
        F.max("label").alias("label"),
        first.alias("first"),
        F.max("last_us").alias("last_us"),
        F.max("until_us").alias("until_us"),
        F.count_if(F.col("until_us").isNull()).alias("open"),
        F.count("*").alias("times"),
        F.max_by("kind", "since_us").alias("kind"),
        F.max("closed_by").alias("closed_by"),
        F.max("traced_us").alias("traced_us"),
    ).select("*", "first.*").withColumn("until_us", F.when(F.col("open") == 0, F.col("until_us")))  # fmt: skip


def _ended(found: DataFrame, generations: DataFrame) -> DataFrame:
    """Those that are long enough, with their end: the group that goes on without a member ends what it waits for."""
    stall, since = F.col("stall"), F.col("since_us")
    next_begun = F.get(F.filter("begun", lambda at: at > since), F.lit(0))
    expelled = stall.isin(StallKind.SILENT.value, StallKind.LOST.value, StallKind.NOT_REJOINING.value)
    until = F.when(expelled, F.least("until_us", next_begun)).otherwise(F.col("until_us"))
    # A refusal is over at once: unless the same is accepted later, the last one is its end.
    until = F.when(stall.isin(*_REFUSALS), F.coalesce("until_us", "last_us")).otherwise(until)
    found = found.join(generations, "group_id", "left").withColumn("until_us", until)
    found = found.withColumn("lasted_us", F.coalesce("until_us", "traced_us") - since)
    limit = F.greatest(MISSED * F.col("usual_us"), F.col("floor_us"))
    told = (F.col("times") >= TOLD) & (F.col("last_us") - since >= TOLD_FOR // 1000)
    least = _meant(
        {error: meaning.times for error, meaning in explanations.MEANINGS.items()}, explanations.meaning("").times
    )
    refused = (stall == StallKind.COMMIT_REFUSED.value) | (F.col("times") >= least)
    others = F.col("until_us").isNotNull() | (F.col("lasted_us") <= SESSION // 1000)
    return found.where(
        ((stall == StallKind.SILENT.value) & (F.col("lasted_us") > limit))
        | ((stall == StallKind.LOST.value) & (F.col("lasted_us") >= LEAST_LOSS // 1000) & others)
        | (stall == StallKind.UNANSWERED.value)
        | ((stall == StallKind.NOT_REJOINING.value) & told)
        | (stall.isin(*_REFUSALS) & refused)
    ).withColumn("least", least)


def _meant(values: dict[str, int], otherwise: int) -> Column:
    known = chosen(F.col("error"), {error: str(value) for error, value in values.items()})
    return F.coalesce(known.cast("int"), F.lit(otherwise))


def _told_of(found: DataFrame) -> DataFrame:
    """In words."""
    stall, label, lasted = F.col("stall"), F.col("label"), ago(F.col("lasted_us"))
    within = ago(F.col("last_us") - F.col("since_us"))
    why = chosen(F.col("error"), {error: meaning.why for error, meaning in explanations.MEANINGS.items()})
    many = F.when(F.col("times") > 1, text(" ", times(F.col("times")), " within ", within)).otherwise("")
    refused = text("the ", F.col("kind"), " of ", label, " was answered with ", F.col("error"), many)
    refused = text(refused, F.coalesce(text(": ", why), F.lit("")))
    count = F.col("times")
    sentences = {
        StallKind.SILENT: text(
            label, " has sent nothing for ", lasted, ", after a heartbeat every ", duration(F.col("usual_us")),
            "; its connection is open, so its process is blocked",
        ),
        StallKind.LOST: text(
            label, " disappeared without LeaveGroup (its connection was closed by the ", F.col("closed_by"),
            ") and has been silent for ", lasted, ": until its session expires, ",
            "nobody reads its partitions",
        ),
        StallKind.UNANSWERED: text(
            label, " has waited ", lasted, " for the response to its ", F.col("kind"), " request",
            F.when(count > 1, text(", and for ", (count - 1).cast("string"), " more")).otherwise(""),
        ),
        StallKind.NOT_REJOINING: text(
            label, " was told ", times(count), " within ", within, " that the group rebalances (REBALANCE_IN_PROGRESS)",
            ", but has not rejoined: it sends heartbeats, but its application does not poll",
        ),
        StallKind.COMMIT_REFUSED: text(
            refused, "; the offsets are not stored, so these records will be read again"
        ),
    }  # fmt: skip
    sentence = F.coalesce(*(F.when(stall == kind.value, words) for kind, words in sentences.items()), refused)
    look = F.coalesce(
        chosen(stall, {kind.value: words for kind, words in _LOOK.items()}),
        chosen(F.col("error"), {error: meaning.look for error, meaning in explanations.MEANINGS.items()}),
        F.lit(explanations.meaning("").look),
    )
    is_refusal = stall.isin(*_REFUSALS)
    worst = (stall == StallKind.FENCED.value) | (F.col("times") >= F.greatest(F.lit(3), F.col("least")))
    worse = F.when(is_refusal, F.when(worst, "error").otherwise("warning"))
    worse = worse.when(stall == StallKind.LOST.value, "warning").otherwise(severity(F.col("lasted_us")))
    nobody = F.array().cast("array<string>")
    waits = is_refusal | (stall == StallKind.UNANSWERED.value)
    blames = stall != StallKind.UNANSWERED.value
    return stall_rows(
        found, stall, severity=worse, sentence=sentence, look=look,
        waiting=F.when(waits, F.array("label")).otherwise(nobody),
        blamed=F.when(blames, F.array("label")).otherwise(nobody),
        blamed_ids=F.when(blames, F.array("who")).otherwise(nobody),
    )  # fmt: skip
