"""kproxy finds nothing wrong with logins, ACLs, users, tokens and transactions in its own broker."""

from __future__ import annotations

import pytest

from tests.kproxy.broker.broker_watch import Step, watch_steps

PRODUCER = {"transactional_id": "t", "producer_id": 0, "producer_epoch": 0}
TOPIC_PARTITIONS = [{"name": "a", "partitions": [0, 1]}]
INIT_PRODUCER_ID = Step("InitProducerId", 5, {"transactional_id": "t", "transaction_timeout_ms": 1000})
ACL = {
    "resource_type": 2,
    "resource_name": "a",
    "resource_pattern_type": 3,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permission_type": 3,
}
FILTER = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
API_VERSIONS = Step("ApiVersions", 4, {"client_software_name": "test", "client_software_version": "1"})


@pytest.mark.parametrize("version", [2, 4, 5])
async def test_transactions_cause_no_unexpected_findings(version: int) -> None:
    added_partitions = {
        f"v3_and_below_{name}": value for name, value in {**PRODUCER, "topics": TOPIC_PARTITIONS}.items()
    }
    steps = [
        API_VERSIONS,
        INIT_PRODUCER_ID,
        Step("AddPartitionsToTxn", min(version, 3), added_partitions),
        Step("AddOffsetsToTxn", min(version, 4), {**PRODUCER, "group_id": "g"}),
        Step("DescribeTransactions", 0, {"transactional_ids": ["t", "nobody"]}),
        Step("ListTransactions", 2, {"state_filters": ["Ongoing", "Unheard"], "transactional_id_pattern": "t"}),
        Step("EndTxn", version, {**PRODUCER, "committed": True}),
        Step("DescribeProducers", 0, {"topics": [{"name": "a", "partition_indexes": [1, 0, 7]}]}),
    ]
    findings = await watch_steps((), steps, topics={"a": 2})
    # The transactional id "nobody" and partition 7 do not exist.
    assert {finding.name for finding in findings} == {"request-refused"}


async def test_login_and_admin_requests_cause_no_unexpected_findings() -> None:
    message = b"\0admin\0secret"
    user = {"name": "bob", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
    steps = [
        API_VERSIONS,
        Step("SaslHandshake", 1, {"mechanism": "PLAIN"}),
        Step("SaslAuthenticate", 2, {"auth_bytes": message}),
        Step("CreateAcls", 3, {"creations": [ACL, {**ACL, "operation": 1}]}),
        Step("DescribeAcls", 3, FILTER),
        Step("AlterUserScramCredentials", 0, {"deletions": [], "upsertions": [user]}),
        Step("DescribeUserScramCredentials", 0, {"users": [{"name": "bob"}, {"name": "nobody"}]}),
        Step("CreateDelegationToken", 2, {"renewers": [], "max_lifetime_ms": -1}),
        Step("DescribeDelegationToken", 3, {"owners": None}),
        Step("RenewDelegationToken", 2, {"hmac": b"x", "renew_period_ms": 1}),
        Step("DeleteAcls", 3, {"filters": [FILTER]}),
    ]
    options = {
        "sasl": ("PLAIN",),
        "users": {"admin": "secret"},
        "acls": True,
        "super_users": ("User:admin",),
        "configs": {"delegation.token.secret.key": "key"},
    }
    results = await watch_steps((), steps, **options)
    names = {finding.name for finding in results}
    # these findings are correct; the user "nobody" has no credential
    assert names == {"sasl-plain-cleartext", "redacted", "delegation-token-refused", "request-refused"}
