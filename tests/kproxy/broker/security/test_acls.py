from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error
from kproxy.broker.options import BrokerOptions
from kproxy.broker.security.acls import Acl, Acls, codes
from tests.kproxy.broker.security.sasl_client import plain
from tests.kproxy.broker.socket_client import Asking, asked

HOST = "10.0.0.1"


def acl(
    operation: str = "READ",
    name: str = "orders",
    permission: str = "ALLOW",
    *,
    kind: str = "TOPIC",
    pattern: str = "LITERAL",
    principal: str = "User:alice",
    host: str = "*",
) -> Acl:
    numbers = codes("acl_operation")[operation], codes("acl_permission_type")[permission]
    return Acl(codes("resource_type")[kind], name, codes("pattern_type")[pattern], principal, host, *numbers)


def with_acls(*entries: Acl, configs: dict[str, str] | None = None) -> Acls:
    options = BrokerOptions(acls=True, super_users=("User:admin",), configs=configs or {})
    acls = Cluster(options, {}).part(Acls)
    for entry in entries:
        acls.create(entry)
    return acls


def may_read(acls: Acls, name: str = "orders", principal: str = "User:alice", host: str = HOST) -> bool:
    return acls.allow(principal, host, "READ", "TOPIC", name)


def test_without_acls_everybody_may_do_everything() -> None:
    assert may_read(Cluster(BrokerOptions(), {}).part(Acls))


def test_without_an_entry_only_super_users_may() -> None:
    assert not may_read(with_acls())
    assert may_read(with_acls(), principal="User:admin")
    assert not may_read(with_acls(), principal="User:administrator")


def test_configs_of_kafka_say_so_too() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    configs = {"authorizer.class.name": name, "super.users": "User:root; User:admin;"}
    acls = Cluster(BrokerOptions(configs=configs), {}).part(Acls)
    assert [may_read(acls, principal=f"User:{each}") for each in ("root", "admin", "alice", "")] == [
        True,
        True,
        False,
        False,
    ]


def test_or_everybody_if_so_configured_as_long_as_there_is_none() -> None:
    configs = {"allow.everyone.if.no.acl.found": "true"}
    assert may_read(with_acls(configs=configs))
    assert not may_read(with_acls(acl(principal="User:bob"), configs=configs))
    assert may_read(with_acls(acl("WRITE", "other"), configs=configs))


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (acl(), True),
        (acl("ALL"), True),
        (acl("WRITE"), False),
        (acl(name="order"), False),
        (acl(name="*"), True),
        (acl(name="ord", pattern="PREFIXED"), True),
        (acl(name="x", pattern="PREFIXED"), False),
        (acl(principal="User:*"), True),
        (acl(principal="User:bob"), False),
        (acl(host=HOST), True),
        (acl(host="10.0.0.2"), False),
        (acl(kind="GROUP"), False),
    ],
)
def test_an_entry_allows_what_it_is_about(entry: Acl, expected: bool) -> None:
    assert may_read(with_acls(entry)) is expected


@pytest.mark.parametrize(
    "denied",
    [
        acl(permission="DENY"),
        acl("ALL", permission="DENY"),
        acl(name="*", permission="DENY"),
        acl(name="o", pattern="PREFIXED", permission="DENY"),
        acl(principal="User:*", permission="DENY"),
    ],
)
def test_who_is_denied_something_is_not_allowed_it_by_anything_else(denied: Acl) -> None:
    assert not may_read(with_acls(acl(), acl(name="*"), acl("ALL"), denied))
    assert may_read(with_acls(denied), principal="User:admin")


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER"])
def test_who_may_do_something_with_a_topic_may_see_it(operation: str) -> None:
    assert with_acls(acl(operation)).allow("User:alice", HOST, "DESCRIBE", "TOPIC", "orders")
    denied = with_acls(acl("DESCRIBE"), acl(operation, permission="DENY"))
    assert denied.allow("User:alice", HOST, "DESCRIBE", "TOPIC", "orders")


def test_who_may_alter_configs_may_see_them() -> None:
    assert with_acls(acl("ALTER_CONFIGS")).allow("User:alice", HOST, "DESCRIBE_CONFIGS", "TOPIC", "orders")
    assert not with_acls(acl("READ")).allow("User:alice", HOST, "DESCRIBE_CONFIGS", "TOPIC", "orders")


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], False),
        ([acl()], True),
        ([acl("WRITE")], False),
        ([acl(), acl(permission="DENY")], False),
        ([acl(), acl(name="*", permission="DENY")], False),
        ([acl(), acl(name="ord", pattern="PREFIXED", permission="DENY")], False),
        ([acl(), acl(name="x", permission="DENY")], True),
        ([acl(name="ord", pattern="PREFIXED"), acl(permission="DENY")], True),
        ([acl(name="*"), acl(name="o", pattern="PREFIXED", permission="DENY")], True),
    ],
)
def test_whether_there_is_anything_that_somebody_may_read(entries: Sequence[Acl], expected: bool) -> None:
    assert with_acls(*entries).allow_some("User:alice", HOST, "READ", "TOPIC") is expected


FIELDS = (
    "resource_type",
    "resource_name",
    "resource_pattern_type",
    "principal",
    "host",
    "operation",
    "permission_type",
)
ANY = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


async def create(ask: Asking, *entries: Acl) -> list[int]:
    fields = [dict(zip(FIELDS, entry, strict=True)) for entry in entries]
    body = await ask("CreateAcls", 3, {"creations": fields})
    return [result["error_code"] for result in body["results"]]


async def described(ask: Asking, **changes: Any) -> list[str]:
    """The resources' names, each as often as it has entries."""
    body = await ask("DescribeAcls", 3, {**ANY, **changes})
    assert body["error_code"] == 0
    return [resource["resource_name"] for resource in body["resources"] for _ in resource["acls"]]


async def test_entries_are_added_once_and_found_by_what_they_say() -> None:
    async with asked(acls=True, super_users=("User:ANONYMOUS",)) as ask:
        entries = (
            acl(),
            acl("WRITE"),
            acl(name="ord", pattern="PREFIXED", principal="User:bob"),
            acl(name="*", permission="DENY"),
            acl(kind="CLUSTER", name="kafka-cluster", operation="ALTER", host=HOST),
        )
        assert await create(ask, *entries, entries[0]) == [0] * 6
        assert await described(ask) == ["orders", "orders", "ord", "*", "kafka-cluster"]
        assert await described(ask, resource_type_filter=4) == ["kafka-cluster"]
        assert await described(ask, principal_filter="User:bob") == ["ord"]
        assert await described(ask, host_filter=HOST) == ["kafka-cluster"]
        assert await described(ask, permission_type=2) == ["*"]
        assert await described(ask, operation=4) == ["orders"]
        assert await described(ask, pattern_type_filter=4) == ["ord"]
        assert await described(ask, resource_name_filter="orders") == ["orders", "orders"]
        match = {"pattern_type_filter": 2, "resource_type_filter": 2}
        assert await described(ask, resource_name_filter="orders", **match) == ["orders", "orders", "ord", "*"]
        assert await described(ask, resource_name_filter="x", **match) == ["*"]
        assert await described(ask, operation=99) == []


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("DescribeAcls", {**ANY, "resource_type_filter": 0}),
        ("DeleteAcls", {"filters": [ANY, {**ANY, "permission_type": 0}]}),
        ("CreateAcls", {"creations": [dict(zip(FIELDS, acl(), strict=True)) | {"resource_pattern_type": 0}]}),
    ],
)
async def test_the_code_for_unknown_closes_the_connection(api: str, body: dict[str, Any]) -> None:
    async with asked() as ask:
        with pytest.raises(asyncio.IncompleteReadError):
            await ask(api, 3, body)


async def test_entries_are_taken_away_by_filters() -> None:
    async with asked(acls=True, super_users=("User:ANONYMOUS",)) as ask:
        await create(ask, acl(), acl("WRITE"), acl(name="other"))
        filters = [
            {**ANY, "resource_name_filter": "orders"},
            {**ANY, "resource_name_filter": "orders"},
            {**ANY, "operation": 99},
        ]
        body = await ask("DeleteAcls", 3, {"filters": filters})
        first, second, third = body["filter_results"]
        assert [acl["operation"] for acl in first["matching_acls"]] == [3, 4]
        assert second["matching_acls"] == first["matching_acls"]
        assert third["error_code"] == Error.INVALID_REQUEST
        assert await described(ask) == ["other"]


@pytest.mark.parametrize(
    "entry",
    [
        acl()._replace(kind=1),
        acl()._replace(kind=99),
        acl()._replace(pattern=2),
        acl()._replace(operation=1),
        acl()._replace(operation=99),
        acl()._replace(permission=1),
        acl(name=""),
        acl(principal="alice"),
        acl(kind="CLUSTER", name="my-cluster"),
    ],
)
async def test_what_no_entry_can_say(entry: Acl) -> None:
    async with asked(acls=True, super_users=("User:ANONYMOUS",)) as ask:
        assert await create(ask, entry, acl()) == [Error.INVALID_REQUEST, 0]
        assert await described(ask) == ["orders"]


async def test_in_the_oldest_version_all_patterns_are_literal() -> None:
    async with asked(acls=True, super_users=("User:ANONYMOUS",)) as ask:
        fields = {key: value for key, value in zip(FIELDS, acl(), strict=True) if key != "resource_pattern_type"}
        assert (await ask("CreateAcls", 1, {"creations": [fields]}))["results"][0]["error_code"] == 0
        assert await described(ask, pattern_type_filter=3) == ["orders"]


async def test_without_acls_there_is_no_security() -> None:
    async with asked() as ask:
        assert await create(ask, acl()) == [Error.SECURITY_DISABLED]
        assert (await ask("DescribeAcls", 3, ANY))["error_code"] == Error.SECURITY_DISABLED
        body = await ask("DeleteAcls", 3, {"filters": [ANY]})
        assert body["filter_results"][0]["error_code"] == Error.SECURITY_DISABLED


async def test_only_who_may_alter_the_cluster_changes_them() -> None:
    users = {"alice": "secret", "admin": "secret"}
    async with asked(acls=True, super_users=("User:admin",), sasl=("PLAIN",), users=users, topics={"orders": 1}) as ask:
        await plain(ask, "alice")
        refused = Error.CLUSTER_AUTHORIZATION_FAILED
        assert await create(ask, acl("DESCRIBE")) == [refused]
        assert (await ask("DescribeAcls", 3, ANY))["error_code"] == refused
        topics = {"topics": [{"name": "orders"}]}
        assert (await ask("Metadata", 4, topics))["topics"][0]["error_code"] == Error.TOPIC_AUTHORIZATION_FAILED
        admin = ask.another()
        await plain(admin, "admin")
        assert await create(admin, acl("DESCRIBE")) == [0]
        await admin.hang_up()
        assert (await ask("Metadata", 4, topics))["topics"][0]["error_code"] == 0
