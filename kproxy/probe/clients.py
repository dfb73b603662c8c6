"""Determines which checks a client needs: those for the API versions that it would use with this broker."""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from kproxy.client.request import api_of
from kproxy.client.versions import VersionRanges
from kproxy.probe.check import CheckResult

#: Group of checks -> the APIs that make a client need it. All clients need the other groups.
_GROUPS: Final[Mapping[str, frozenset[str]]] = {
    "acls": frozenset({"CreateAcls"}),
    "fetch-sessions": frozenset({"Fetch"}),
    "groups": frozenset({"JoinGroup"}),
    "offsets": frozenset({"ListOffsets"}),
    "producers": frozenset({"InitProducerId"}),
    "quotas": frozenset({"AlterClientQuotas"}),
    "records": frozenset({"Produce", "Fetch"}),
    "shares": frozenset({"ShareFetch"}),
    "topics": frozenset({"CreateTopics"}),
}
#: Check or group of checks -> an API and its first version for which clients need the check.
_FIRST_VERSIONS: Final[Mapping[str, tuple[str, int]]] = {
    "fetch-sessions": ("Fetch", 7),
    "groups/consumer-protocol": ("ConsumerGroupHeartbeat", 0),
    "groups/delete-unknown": ("DeleteGroups", 0),
    "groups/fenced-instance": ("JoinGroup", 5),
    "groups/non-empty": ("DeleteGroups", 0),
    "offsets/leader-epochs": ("Fetch", 9),
    "offsets/max-timestamp": ("ListOffsets", 7),
    "offsets/earliest-local": ("ListOffsets", 8),
    "offsets/latest-tiered": ("ListOffsets", 9),
    "offsets/special-timestamp-too-early": ("ListOffsets", 7),
    "producers/fenced": ("AddPartitionsToTxn", 0),
    "producers/transaction-timeout": ("AddPartitionsToTxn", 0),
    "producers/transactions": ("AddPartitionsToTxn", 0),
    "quotas/fetch": ("Fetch", 0),
    "quotas/no-throttle": ("ApiVersions", 0),
    "quotas/produce": ("Produce", 0),
    "topic-ids/delete": ("DeleteTopics", 6),
    "topic-ids/fetch": ("Fetch", 13),
    "topic-ids/fetch-unknown": ("Fetch", 13),
    "topic-ids/metadata": ("Metadata", 10),
    "topic-ids/produce": ("Produce", 13),
    "topic-ids/recreated": ("Fetch", 13),
    "topics/more-partitions": ("CreatePartitions", 0),
    "topics/delete-unknown": ("DeleteTopics", 0),
}


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client and the newest version of each API that it uses, recorded with Kafka 4.3.1."""

    name: str
    versions: Mapping[str, int]

    def negotiate(self, served: VersionRanges) -> dict[str, int | None]:
        """Return the versions that the client uses with a broker, None for APIs that are not served."""
        versions: dict[str, int | None] = {}
        for api, newest in self.versions.items():
            limits = served.get(api_of(api).key)
            versions[api] = None if limits is None or newest < limits[0] else min(newest, limits[1])
        return versions


@dataclass(frozen=True, slots=True)
class ClientScore:
    """How well a client would work: the checks that it needs, the ids of those that fail, and the missing APIs."""

    name: str
    needed: int
    passed: int
    failed: tuple[str, ...]
    missing: tuple[str, ...]


@functools.cache
def known_clients() -> tuple[KnownClient, ...]:
    """Return the clients in ``clients.json``, made from captures of everything that each client can do."""
    data = pkgutil.get_data("kproxy.probe", "clients.json")
    assert data is not None
    return tuple(KnownClient(name, versions) for name, versions in json.loads(data).items())


def scores(results: Iterable[CheckResult], served: VersionRanges) -> list[ClientScore]:
    """Return the scores of all known clients. Skipped checks do not count."""
    completed = [check_result for check_result in results if check_result.outcome != "skip"]
    client_scores = []
    for client in known_clients():
        used_versions = client.negotiate(served)
        needed = [
            check_result for check_result in completed if _needs_check(client, used_versions, check_result.check.id)
        ]
        failed = tuple(check_result.check.id for check_result in needed if check_result.outcome == "fail")
        missing = tuple(api for api, version in used_versions.items() if version is None)
        client_scores.append(ClientScore(client.name, len(needed), len(needed) - len(failed), failed, missing))
    return client_scores


def clients_of(check_id: str) -> list[str]:
    """Return the names of the clients that need a check with Kafka 4.3.1."""
    return [client.name for client in known_clients() if _needs_check(client, client.versions, check_id)]


def _needs_check(client: KnownClient, used_versions: Mapping[str, int | None], check_id: str) -> bool:
    group, _, rest = check_id.partition("/")
    if group in client.versions:
        return rest.startswith(f"v{used_versions[group]}/")
    if group[0].isupper():
        return False  # an API that the client does not use
    for name in (check_id, group):
        if name in _FIRST_VERSIONS:
            api, version = _FIRST_VERSIONS[name]
            used_version = used_versions.get(api)
            return used_version is not None and used_version >= version
    return group not in _GROUPS or bool(_GROUPS[group] & client.versions.keys())
