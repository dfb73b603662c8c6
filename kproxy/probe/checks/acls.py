"""ACLs, if the broker has an authorizer: creating, describing and deleting them (KIP-140, KIP-290)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from dissectors.schemas.codes import Error
from kproxy.client.connection import BrokerConnection
from kproxy.probe.check import CheckFailed, CheckSkipped, check
from kproxy.probe.scratch import expect, poll_until
from kproxy.probe.target import BrokerResponse, Target

_AUTHORIZER = "metadata/src/main/java/org/apache/kafka/metadata/authorizer/StandardAuthorizer.java"
_REQUEST = "clients/src/main/java/org/apache/kafka/common/requests/DescribeAclsRequest.java"
_UNKNOWN, _ANY, _TOPIC, _MATCH, _LITERAL, _PREFIXED = 0, 1, 2, 2, 3, 4
_READ, _ALLOW = 3, 3
_DISABLED: Final = (Error.SECURITY_DISABLED, Error.CLUSTER_AUTHORIZATION_FAILED)
_VERSION: Final = 1  # the first one with pattern types


@check("acls/round-trip", "KIP-140", _AUTHORIZER, writes=True)
async def check_round_trip(target: Target) -> None:
    """A created ACL is described with the fields that it was created with, and deleted by a filter.

    Provisioning tools compare the described ACLs with the wanted ones; an ACL that a filter misses stays in force.
    """
    async with target.connection() as connection, _created_acl(target, connection, _LITERAL) as acl:
        await _expect_described(target, connection, _acl_filter(acl["resource_name"], _LITERAL), [acl])
        delete_response = await _delete_acl(target, connection, acl["resource_name"])
        if [_described_fields(acl, acl) for acl in delete_response.body["filter_results"][0]["matching_acls"]] != [acl]:
            raise delete_response.failure("DeleteAcls does not return exactly the ACL that it deletes")
        await _expect_described(target, connection, _acl_filter(acl["resource_name"], _LITERAL), [])


@check("acls/prefixed", "KIP-290", _AUTHORIZER, writes=True)
async def check_match_filter(target: Target) -> None:
    """A filter with pattern type MATCH finds the prefixed ACLs that apply to a name; LITERAL does not find them.

    Tools use MATCH to list who may use a topic; an ACL that they miss is access that nobody knows of.
    """
    async with target.connection() as connection, _created_acl(target, connection, _PREFIXED) as acl:
        name = acl["resource_name"] + "-longer"
        await _expect_described(target, connection, _acl_filter(name, _MATCH), [acl])
        await _expect_described(target, connection, _acl_filter(acl["resource_name"], _LITERAL), [])


@check("acls/unknown-resource-type", "KIP-140", _REQUEST)
async def check_unknown_resource_type(target: Target) -> None:
    """DescribeAcls with resource type 0, UNKNOWN, closes the connection or returns an error.

    Clients send it for types that are newer than they are. A broker that treats it like ANY lists all ACLs.
    """
    version = min(_VERSION, target.version("DescribeAcls", _VERSION))
    async with target.connection() as connection:
        request = target.frame(connection, "DescribeAcls", version, **_acl_filter(None, _ANY, _UNKNOWN))
        connection.send(request)
        response = await target.receive_refusal(connection, "DescribeAcls with an unknown resource type")
        if response is not None and response[12:14] == bytes(2):
            raise CheckFailed("DescribeAcls with an unknown resource type is answered without an error")
    await target.expect_still_serving()


@asynccontextmanager
async def _created_acl(target: Target, connection: BrokerConnection, pattern: int) -> AsyncIterator[dict[str, Any]]:
    """Create an ACL for a made-up principal, host and topic, and delete it at the end."""
    name = target.new_name("acl")
    acl = {"resource_type": _TOPIC, "resource_name": name, "pattern_type": pattern, "principal": "User:kproxy-probe",
           "host": "192.0.2.1", "operation": _READ, "permission_type": _ALLOW}  # fmt: skip
    creation = {"resource_pattern_type" if key == "pattern_type" else key: value for key, value in acl.items()}
    version = min(_VERSION, target.version("CreateAcls", _VERSION))
    response = await target.request(connection, "CreateAcls", version, creations=[creation])
    if len(response.body["results"]) != 1:
        raise response.failure("the response does not have exactly one result")
    code = response.body["results"][0]["error_code"]
    if code in _DISABLED:
        raise CheckSkipped(f"ACLs cannot be created: error {code} ({Error(code).name})")
    expect(code, Error.NONE, "CreateAcls")
    try:
        yield acl
    finally:
        await _delete_acl(target, connection, name)


async def _delete_acl(target: Target, connection: BrokerConnection, name: str) -> BrokerResponse:
    version = min(_VERSION, target.version("DeleteAcls", _VERSION))
    response = await target.request(connection, "DeleteAcls", version, filters=[_acl_filter(name, _ANY)])
    expect(response.body["filter_results"][0]["error_code"], Error.NONE, "DeleteAcls")
    return response


async def _expect_described(
    target: Target, connection: BrokerConnection, values: Mapping[str, object], expected: list[dict[str, Any]]
) -> None:
    """Fail unless DescribeAcls returns exactly these ACLs within the time limit."""
    version = min(_VERSION, target.version("DescribeAcls", _VERSION))

    def described_acls(answer: BrokerResponse) -> list[dict[str, Any]]:
        return [_described_fields(resource, acl) for resource in answer.body["resources"] for acl in resource["acls"]]

    response = await poll_until(
        target,
        lambda: target.request(connection, "DescribeAcls", version, **values),
        lambda answer: described_acls(answer) == expected,
    )
    expect(response.body["error_code"], Error.NONE, "DescribeAcls")
    if described_acls(response) != expected:
        raise response.failure(
            f"DescribeAcls returns {described_acls(response) or 'no ACL'} instead of {expected or 'none'}"
        )


def _acl_filter(name: str | None, pattern: int, resource_type: int = _TOPIC) -> dict[str, object]:
    return {"resource_type_filter": resource_type, "resource_name_filter": name, "pattern_type_filter": pattern,
            "principal_filter": None, "host_filter": None, "operation": _ANY, "permission_type": _ANY}  # fmt: skip


def _described_fields(resource: Mapping[str, Any], acl: Mapping[str, Any]) -> dict[str, Any]:
    """Return a described ACL in the form that `_created_acl` yields."""
    return {
        **{name: resource[name] for name in ("resource_type", "resource_name", "pattern_type")},
        **{name: acl[name] for name in ("principal", "host", "operation", "permission_type")},
    }
