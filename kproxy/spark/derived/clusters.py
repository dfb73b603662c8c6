"""The cluster of each line: names of groups, topics, clients and brokers are unique only within a cluster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dissectors.connections import addresses
from kproxy.spark.derived.connection_ids import FILE_NAME_PATTERN, source

#: The name of the column.
CLUSTER: Final = "cluster"


class ServerLocation(NamedTuple):
    """A server as seen by one observer (a proxy or a capture); another may see another machine at the same address."""

    observer: str
    server: str


@dataclass(frozen=True, slots=True)
class Sighting:
    """A number of lines from a server that name the same cluster and brokers, or none."""

    place: ServerLocation
    cluster_id: str | None
    brokers: Sequence[str]
    lines: int


def clustered(lines: DataFrame) -> tuple[DataFrame, list[str]]:
    """Return lines with the column `CLUSTER`, and the names of all clusters; the lines are read once.

    A cluster's name is its id. If no response contains the id, it is the lowest address of the cluster's servers. Lines
    without a server (gaps, findings of a connection) have a cluster only if there is exactly one.
    """
    # An observer is a proxy or a capture. Captures with the same name in several folders are several observers.
    observer = F.concat(F.coalesce(F.regexp_replace("file", FILE_NAME_PATTERN, ""), F.lit("")), F.lit("/"), source())
    server_rows = (
        lines.where(F.col("server").isNotNull())
        # The observer of each connection, not of each line: two regular expressions a line took most of the time.
        .groupBy("file", "connection_id", "server", "cluster_id", F.array_join("brokers", ",").alias("brokers"))
        .agg(F.count("*").alias("lines"))
        .groupBy(observer.alias("observer"), "server", "cluster_id", "brokers")
        .agg(F.sum("lines").alias("lines"))
        .collect()
    )
    names = clusters(
        Sighting(
            ServerLocation(row["observer"], row["server"]), row["cluster_id"], _addresses(row["brokers"]), row["lines"]
        )
        for row in server_rows
    )
    cluster_names = sorted(set(names.values()))
    if len(cluster_names) < 2:
        return lines.withColumn(
            CLUSTER, F.lit(cluster_names[0] if cluster_names else None).cast("string")
        ), cluster_names
    schema = f"_observer string, _server string, {CLUSTER} string"
    rows = lines.sparkSession.createDataFrame([(*location, name) for location, name in names.items()], schema)
    is_same_server = (observer == F.col("_observer")) & (F.col("server") == F.col("_server"))
    return lines.join(F.broadcast(rows), is_same_server, "left").drop("_observer", "_server"), cluster_names


def _addresses(text: str | None) -> list[str]:
    return [part for part in (text or "").split(",") if part]


def names_cluster() -> Column:
    """Return whether a line names its cluster or its brokers; never null."""
    return F.col("cluster_id").isNotNull() | (F.coalesce(F.size("brokers"), F.lit(0)) > 0)


def clusters(sightings: Iterable[Sighting]) -> dict[ServerLocation, str]:
    """Return the name of each server's cluster.

    A server belongs to the cluster whose id it reports. If it reports none, it belongs to the cluster that is known for
    its address or for a broker that it names: from the same observer, or else from any observer. Other servers of a
    observer belong to the only cluster that this observer has seen. The remaining servers are grouped if they share a
    observer, an address or a named broker.
    """
    reported: dict[ServerLocation, Counter[str]] = defaultdict(Counter)
    addresses_by_server: dict[ServerLocation, set[str]] = defaultdict(set)  # including the server itself
    cluster_ids: dict[tuple[str | None, str], set[str]] = defaultdict(set)  # (observer or any, address): ids
    for sighting in sightings:
        location = sighting.place
        own_addresses = {_canonical_address(address) for address in (location.server, *sighting.brokers)}
        addresses_by_server[location] |= own_addresses
        reported[location].update({sighting.cluster_id: sighting.lines} if sighting.cluster_id else {})
        if sighting.cluster_id:
            for address in own_addresses:
                cluster_ids[location.observer, address].add(sighting.cluster_id)
                cluster_ids[None, address].add(sighting.cluster_id)
    cluster_by_server = {location: max(sorted(ids), key=ids.__getitem__) for location, ids in reported.items() if ids}
    for scope in ("observer", "any"):
        for location in addresses_by_server.keys() - cluster_by_server.keys():
            observer = location.observer if scope == "observer" else None
            ids = set().union(*(cluster_ids.get((observer, address), ()) for address in addresses_by_server[location]))
            if len(ids) == 1:
                cluster_by_server[location] = ids.pop()
    clusters_by_observer: dict[str, set[str]] = defaultdict(set)
    for location, name in cluster_by_server.items():
        clusters_by_observer[location.observer].add(name)
    remaining = addresses_by_server.keys() - cluster_by_server.keys()
    cluster_by_server |= {
        location: min(clusters_by_observer[location.observer])
        for location in remaining
        if len(clusters_by_observer[location.observer]) == 1
    }
    return cluster_by_server | _group_by_address(
        {location: addresses_by_server[location] for location in remaining - cluster_by_server.keys()},
        clusters_by_observer,
    )


def _group_by_address(
    addresses_by_server: Mapping[ServerLocation, set[str]], clusters_by_observer: Mapping[str, set[str]]
) -> dict[ServerLocation, str]:
    """Group servers without a known cluster id; the name of a group is its lowest address."""
    parents: dict[str, str] = {}

    def root(key: str) -> str:
        while (parent := parents.setdefault(key, key)) != key:
            parents[key] = parents[parent]
            key = parent
        return key

    for location, own_addresses in addresses_by_server.items():
        # An observer of several clusters does not show which of them a server belongs to.
        observer = set() if clusters_by_observer.get(location.observer) else {f"observer {location.observer}"}
        for key in own_addresses | observer:
            parents[root(key)] = root(_canonical_address(location.server))
    lowest_addresses: dict[str, str] = {}
    for location in sorted(addresses_by_server, key=lambda candidate: candidate.server):
        lowest_addresses.setdefault(root(_canonical_address(location.server)), location.server)
    return {location: lowest_addresses[root(_canonical_address(location.server))] for location in addresses_by_server}


def _canonical_address(address: str) -> str:
    """Return a canonical spelling of an address."""
    parts = addresses.split(address)
    return address if parts is None else addresses.join(*parts)


def with_cluster(lines: DataFrame) -> DataFrame:
    """Return lines with the column `CLUSTER`; if it is missing, all lines belong to one cluster with an empty name."""
    return lines if CLUSTER in lines.columns else lines.withColumn(CLUSTER, F.lit(""))
