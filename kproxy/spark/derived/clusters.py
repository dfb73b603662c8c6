"""The cluster that each line is of: names of groups, topics, clients and brokers mean something within one only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors.connections import addresses
from kproxy.spark.derived.connection_ids import source

#: The column that says it.
CLUSTER: Final = "cluster"


class ServerPlace(NamedTuple):
    """A server as one proxy, or capture, knows it: elsewhere the same address may be another machine."""

    watcher: str
    server: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """So many lines of a server that name the same cluster and brokers, or nothing of it."""

    place: ServerPlace
    cluster_id: str | None
    brokers: Sequence[str]
    lines: int


def clustered(lines: DataFrame) -> tuple[DataFrame, list[str]]:
    """Lines with the column `CLUSTER`, and the names of all clusters; it reads the lines once.

    A cluster is named by its id. Where no response reveals that, it is named by the lowest address of its servers.
    Lines without a server (gaps, findings of a connection) have the cluster only if there is one cluster in all.
    """
    watcher = source()
    found = (
        lines.where(F.col("server").isNotNull())
        .groupBy(watcher.alias("watcher"), "server", "cluster_id", "brokers")
        .agg(F.count("*").alias("lines"))
        .collect()
    )
    names = clusters(
        Sighting(ServerPlace(row["watcher"], row["server"]), row["cluster_id"], row["brokers"] or (), row["lines"])
        for row in found
    )
    several = sorted(set(names.values()))
    if len(several) < 2:
        return lines.withColumn(CLUSTER, F.lit(several[0] if several else None).cast("string")), several
    schema = f"_watcher string, _server string, {CLUSTER} string"
    rows = lines.sparkSession.createDataFrame([(*place, name) for place, name in names.items()], schema)
    same = (watcher == F.col("_watcher")) & (F.col("server") == F.col("_server"))
    return lines.join(F.broadcast(rows), same, "left").drop("_watcher", "_server"), several


def names_cluster() -> Column:
    """Whether a line names its cluster, or the brokers of it; never null."""
    return F.col("cluster_id").isNotNull() | (F.coalesce(F.size("brokers"), F.lit(0)) > 0)


def clusters(sightings: Iterable[Sighting]) -> dict[ServerPlace, str]:
    """The name of each server's cluster.

    A server belongs to the cluster whose id it reports. One that reports none belongs to the cluster of which it, or a
    broker that it names, is known to be: by the same watcher, or else by any. What is left of a watcher belongs to the
    only cluster that this one has seen. All others are together if they have a watcher, an address or a named broker in
    common.
    """
    reported: dict[ServerPlace, Counter[str]] = defaultdict(Counter)
    named: dict[ServerPlace, set[str]] = defaultdict(set)  # with the server itself
    members: dict[tuple[str | None, str], set[str]] = defaultdict(set)  # (watcher or any, address): ids
    for each in sightings:
        place = each.place
        mine = {_spelled(address) for address in (place.server, *each.brokers)}
        named[place] |= mine
        reported[place].update({each.cluster_id: each.lines} if each.cluster_id else {})
        if each.cluster_id:
            for address in mine:
                members[place.watcher, address].add(each.cluster_id)
                members[None, address].add(each.cluster_id)
    found = {place: max(sorted(ids), key=ids.__getitem__) for place, ids in reported.items() if ids}
    for scope in ("watcher", "any"):
        for place in named.keys() - found.keys():
            watcher = place.watcher if scope == "watcher" else None
            ids = set().union(*(members.get((watcher, address), ()) for address in named[place]))
            if len(ids) == 1:
                found[place] = ids.pop()
    seen: dict[str, set[str]] = defaultdict(set)
    for place, name in found.items():
        seen[place.watcher].add(name)
    left = named.keys() - found.keys()
    found |= {place: min(seen[place.watcher]) for place in left if len(seen[place.watcher]) == 1}
    return found | _together({place: named[place] for place in left - found.keys()}, seen)


def _together(named: Mapping[ServerPlace, set[str]], seen: Mapping[str, set[str]]) -> dict[ServerPlace, str]:
    """Servers of which no id is known, by the lowest address of those that belong together."""
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        while (parent := parents.setdefault(key, key)) != key:
            parents[key] = parents[parent]
            key = parent
        return key

    for place, mine in named.items():
        # Who watches several clusters does not tell which of them a server is of.
        watcher = set() if seen.get(place.watcher) else {f"watcher {place.watcher}"}
        for key in mine | watcher:
            parents[root(key)] = root(_spelled(place.server))
    lowest: dict[str, str] = {}
    for place in sorted(named, key=lambda each: each.server):
        lowest.setdefault(root(_spelled(place.server)), place.server)
    return {place: lowest[root(_spelled(place.server))] for place in named}


def _spelled(address: str) -> str:
    """One spelling of each address."""
    parts = addresses.split(address)
    return address if parts is None else addresses.join(*parts)


def with_cluster(lines: DataFrame) -> DataFrame:
    """Lines with the column: those that have none are taken for lines of one cluster, whose name is empty."""
    return lines if CLUSTER in lines.columns else lines.withColumn(CLUSTER, F.lit(""))
