from __future__ import annotations

import hashlib
from typing import Any

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error
from kproxy.broker.options import BrokerOptions
from kproxy.broker.security.credentials import Credential, Credentials
from tests.kproxy.broker.memory import MemoryJournal
from tests.kproxy.broker.security.sasl_client import ScramClient, login_plain, login_scram
from tests.kproxy.broker.socket_client import SocketClient, broker_client

SALT = b"a salt of sixteen"
OPTIONS = {"sasl": ["PLAIN", "SCRAM-SHA-256"], "users": {"admin": "secret"}}


def upsertion(name: str = "bob", mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    salted_password = hashlib.pbkdf2_hmac("sha256", b"bobs", SALT, 4096)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": SALT,
        "salted_password": salted_password,
    }


async def alter_credentials(client: SocketClient, *upsertions: Any, deletions: Any = ()) -> dict[str, int]:
    body = await client("AlterUserScramCredentials", 0, {"upsertions": upsertions, "deletions": deletions})
    return {result["user"]: result["error_code"] for result in body["results"]}


async def describe_credentials(client: SocketClient, *names: str) -> dict[str, Any]:
    body = await client("DescribeUserScramCredentials", 0, {"users": [{"name": name} for name in names]})
    return {
        result["user"]: result["error_code"]
        or [(credential["mechanism"], credential["iterations"]) for credential in result["credential_infos"]]
        for result in body["results"]
    }


async def test_user_created_by_an_administrator_can_log_in_until_deleted() -> None:
    async with broker_client(**OPTIONS) as client:
        await login_plain(client, "admin")
        assert await alter_credentials(client, upsertion()) == {"bob": 0}
        assert await describe_credentials(client) == {"admin": [(1, 4096)], "bob": [(1, 4096)]}
        bob = client.second_client()
        assert (await login_scram(bob, "SCRAM-SHA-256", ScramClient("SCRAM-SHA-256", "bob", "bobs")))["error_code"] == 0
        await bob.hang_up()
        assert await alter_credentials(client, deletions=[{"name": "bob", "mechanism": 1}]) == {"bob": 0}
        body = await login_scram(bob, "SCRAM-SHA-256", ScramClient("SCRAM-SHA-256", "bob", "bobs"))
        assert body["error_code"] == Error.SASL_AUTHENTICATION_FAILED
        await bob.hang_up()
        assert await describe_credentials(client, "bob", "admin", "admin") == {
            "bob": Error.RESOURCE_NOT_FOUND,
            "admin": Error.DUPLICATE_RESOURCE,
        }


@pytest.mark.parametrize(
    ("upsertion_", "error"),
    [
        (upsertion(name=""), Error.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), Error.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), Error.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), Error.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), Error.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=-1), Error.UNACCEPTABLE_CREDENTIAL),
    ],
)
async def test_rejects_an_invalid_credential(upsertion_: dict[str, Any], error: Error) -> None:
    async with broker_client() as client:
        assert await alter_credentials(client, upsertion_, upsertion("other")) == {
            upsertion_["name"]: error,
            "other": 0,
        }


async def test_rejects_duplicate_alterations_and_deletion_of_unknown_users() -> None:
    async with broker_client() as client:
        assert await alter_credentials(client, upsertion(), upsertion("nobody")) == {"bob": 0, "nobody": 0}
        assert await alter_credentials(client, deletions=[{"name": "nobody", "mechanism": 1}]) == {"nobody": 0}
        deletions = [{"name": "bob", "mechanism": 1}, {"name": "nobody", "mechanism": 1}]
        errors = await alter_credentials(
            client,
            upsertion(),
            upsertion("nobody"),
            upsertion("twice"),
            upsertion("twice", mechanism=2),
            deletions=deletions,
        )
        duplicate = Error.DUPLICATE_RESOURCE
        assert errors == {"bob": duplicate, "nobody": Error.RESOURCE_NOT_FOUND, "twice": duplicate}
        assert await describe_credentials(client) == {"bob": [(1, 4096)]}


def test_users_survive_a_restart() -> None:
    journal = MemoryJournal()
    credential = Credential.from_password("sha512", "secret")
    Cluster(BrokerOptions(), {}, journal=journal).part(Credentials).put("bob", "SCRAM-SHA-512", credential)
    credentials = Cluster(BrokerOptions(), {}, journal=journal).part(Credentials)
    assert credentials.get("bob", "SCRAM-SHA-512") == credential
    credentials.delete("bob", "SCRAM-SHA-512")
    assert Cluster(BrokerOptions(), {}, journal=journal).part(Credentials).users() == []
