from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error
from kproxy.broker.options import BrokerOptions
from kproxy.broker.security.acls import Acl, Acls, codes
from tests.kproxy.broker.security.sasl_client import login_plain
from tests.kproxy.broker.socket_client import SocketClient, broker_client

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


def make_acls(*entries: Acl, configs: dict[str, str] | None = None) -> Acls:
    options = BrokerOptions(acls=True, super_users=("User:admin",), configs=configs or {})
    acls = Cluster(options, {}).part(Acls)
    for entry in entries:
        acls.create(entry)
    return acls


def may_read(acls: Acls, name: str = "orders", principal: str = "User:alice", host: str = HOST) -> bool:
    return acls.allow(principal, host, "READ", "TOPIC", name)


def test_everyone_is_allowed_everything_if_acls_are_off() -> None:
    assert may_read(Cluster(BrokerOptions(), {}).part(Acls))


def test_only_super_users_are_allowed_without_an_acl() -> None:
    assert not may_read(make_acls())
    assert may_read(make_acls(), principal="User:admin")
    assert not may_read(make_acls(), principal="User:administrator")


def test_kafka_configs_enable_acls_and_super_users() -> None:
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    configs = {"authorizer.class.name": name, "super.users": "User:root; User:admin;"}
    acls = Cluster(BrokerOptions(configs=configs), {}).part(Acls)
    assert [may_read(acls, principal=f"User:{user}") for user in ("root", "admin", "alice", "")] == [
        True,
        True,
        False,
        False,
    ]


def test_everyone_is_allowed_if_so_configured_and_no_acl_matches() -> None:
    configs = {"allow.everyone.if.no.acl.found": "true"}
    assert may_read(make_acls(configs=configs))
    assert not may_read(make_acls(acl(principal="User:bob"), configs=configs))
    assert may_read(make_acls(acl("WRITE", "other"), configs=configs))


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
def test_acl_allows_only_matching_requests(entry: Acl, expected: bool) -> None:
    assert may_read(make_acls(entry)) is expected


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
def test_deny_takes_precedence_over_allow(denied: Acl) -> None:
    assert not may_read(make_acls(acl(), acl(name="*"), acl("ALL"), denied))
    assert may_read(make_acls(denied), principal="User:admin")


@pytest.mark.parametrize("operation", ["READ", "WRITE", "DELETE", "ALTER"])
def test_read_write_delete_or_alter_implies_describe(operation: str) -> None:
    assert make_acls(acl(operation)).allow("User:alice", HOST, "DESCRIBE", "TOPIC", "orders")
    denied = make_acls(acl("DESCRIBE"), acl(operation, permission="DENY"))
    assert denied.allow("User:alice", HOST, "DESCRIBE", "TOPIC", "orders")


def test_alter_configs_implies_describe_configs() -> None:
    assert make_acls(acl("ALTER_CONFIGS")).allow("User:alice", HOST, "DESCRIBE_CONFIGS", "TOPIC", "orders")
    assert not make_acls(acl("READ")).allow("User:alice", HOST, "DESCRIBE_CONFIGS", "TOPIC", "orders")


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
def test_reports_whether_any_topic_may_be_read(entries: Sequence[Acl], expected: bool) -> None:
    assert make_acls(*entries).allows_any("User:alice", HOST, "READ", "TOPIC") is expected


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


async def create_acls(client: SocketClient, *entries: Acl) -> list[int]:
    fields = [dict(zip(FIELDS, entry, strict=True)) for entry in entries]
    body = await client("CreateAcls", 3, {"creations": fields})
    return [result["error_code"] for result in body["results"]]


async def describe_acls(client: SocketClient, **changes: Any) -> list[str]:
    """Return the name of each resource, repeated for each of its ACLs."""
    body = await client("DescribeAcls", 3, {**ANY, **changes})
    assert body["error_code"] == 0
    return [resource["resource_name"] for resource in body["resources"] for _ in resource["acls"]]


async def test_acls_are_added_once_and_found_by_filters() -> None:
    async with broker_client(acls=True, super_users=("User:ANONYMOUS",)) as client:
        entries = (
            acl(),
            acl("WRITE"),
            acl(name="ord", pattern="PREFIXED", principal="User:bob"),
            acl(name="*", permission="DENY"),
            acl(kind="CLUSTER", name="kafka-cluster", operation="ALTER", host=HOST),
        )
        assert await create_acls(client, *entries, entries[0]) == [0] * 6
        assert await describe_acls(client) == ["orders", "orders", "ord", "*", "kafka-cluster"]
        assert await describe_acls(client, resource_type_filter=4) == ["kafka-cluster"]
        assert await describe_acls(client, principal_filter="User:bob") == ["ord"]
        assert await describe_acls(client, host_filter=HOST) == ["kafka-cluster"]
        assert await describe_acls(client, permission_type=2) == ["*"]
        assert await describe_acls(client, operation=4) == ["orders"]
        assert await describe_acls(client, pattern_type_filter=4) == ["ord"]
        assert await describe_acls(client, resource_name_filter="orders") == ["orders", "orders"]
        match = {"pattern_type_filter": 2, "resource_type_filter": 2}
        assert await describe_acls(client, resource_name_filter="orders", **match) == ["orders", "orders", "ord", "*"]
        assert await describe_acls(client, resource_name_filter="x", **match) == ["*"]
        assert await describe_acls(client, operation=99) == []


@pytest.mark.parametrize(
    ("api", "body"),
    [
        ("DescribeAcls", {**ANY, "resource_type_filter": 0}),
        ("DeleteAcls", {"filters": [ANY, {**ANY, "permission_type": 0}]}),
        ("CreateAcls", {"creations": [dict(zip(FIELDS, acl(), strict=True)) | {"resource_pattern_type": 0}]}),
    ],
)
async def test_unknown_enum_code_closes_the_connection(api: str, body: dict[str, Any]) -> None:
    async with broker_client() as client:
        with pytest.raises(asyncio.IncompleteReadError):
            await client(api, 3, body)


async def test_delete_acls_removes_matching_acls() -> None:
    async with broker_client(acls=True, super_users=("User:ANONYMOUS",)) as client:
        await create_acls(client, acl(), acl("WRITE"), acl(name="other"))
        filters = [
            {**ANY, "resource_name_filter": "orders"},
            {**ANY, "resource_name_filter": "orders"},
            {**ANY, "operation": 99},
        ]
        body = await client("DeleteAcls", 3, {"filters": filters})
        first, second, third = body["filter_results"]
        assert [acl["operation"] for acl in first["matching_acls"]] == [3, 4]
        assert second["matching_acls"] == first["matching_acls"]
        assert third["error_code"] == Error.INVALID_REQUEST
        assert await describe_acls(client) == ["other"]


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
async def test_rejects_an_invalid_acl(entry: Acl) -> None:
    async with broker_client(acls=True, super_users=("User:ANONYMOUS",)) as client:
        assert await create_acls(client, entry, acl()) == [Error.INVALID_REQUEST, 0]
        assert await describe_acls(client) == ["orders"]


async def test_patterns_are_literal_in_version_1() -> None:
    async with broker_client(acls=True, super_users=("User:ANONYMOUS",)) as client:
        fields = {key: value for key, value in zip(FIELDS, acl(), strict=True) if key != "resource_pattern_type"}
        assert (await client("CreateAcls", 1, {"creations": [fields]}))["results"][0]["error_code"] == 0
        assert await describe_acls(client, pattern_type_filter=3) == ["orders"]


async def test_acl_requests_fail_if_acls_are_off() -> None:
    async with broker_client() as client:
        assert await create_acls(client, acl()) == [Error.SECURITY_DISABLED]
        assert (await client("DescribeAcls", 3, ANY))["error_code"] == Error.SECURITY_DISABLED
        body = await client("DeleteAcls", 3, {"filters": [ANY]})
        assert body["filter_results"][0]["error_code"] == Error.SECURITY_DISABLED


async def test_changing_acls_requires_alter_on_the_cluster() -> None:
    users = {"alice": "secret", "admin": "secret"}
    async with broker_client(
        acls=True, super_users=("User:admin",), sasl=("PLAIN",), users=users, topics={"orders": 1}
    ) as client:
        await login_plain(client, "alice")
        refused = Error.CLUSTER_AUTHORIZATION_FAILED
        assert await create_acls(client, acl("DESCRIBE")) == [refused]
        assert (await client("DescribeAcls", 3, ANY))["error_code"] == refused
        topics = {"topics": [{"name": "orders"}]}
        assert (await client("Metadata", 4, topics))["topics"][0]["error_code"] == Error.TOPIC_AUTHORIZATION_FAILED
        admin = client.second_client()
        await login_plain(admin, "admin")
        assert await create_acls(admin, acl("DESCRIBE")) == [0]
        await admin.hang_up()
        assert (await client("Metadata", 4, topics))["topics"][0]["error_code"] == 0
