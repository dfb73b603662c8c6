from __future__ import annotations

import hashlib
from typing import Any

import pytest

from kproxy.broker.cluster import Cluster
from kproxy.broker.errors import Error
from kproxy.broker.options import BrokerOptions
from kproxy.broker.security.credentials import Credential, Credentials
from tests.kproxy.broker.memory import Memory
from tests.kproxy.broker.security.sasl_client import ScramClient, plain, scram
from tests.kproxy.broker.socket_client import Asking, asked

SALT = b"a salt of sixteen"
OPTIONS = {"sasl": ["PLAIN", "SCRAM-SHA-256"], "users": {"admin": "secret"}}


def upsertion(name: str = "bob", mechanism: int = 1, iterations: int = 4096) -> dict[str, Any]:
    salted = hashlib.pbkdf2_hmac("sha256", b"bobs", SALT, 4096)
    return {
        "name": name,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": SALT,
        "salted_password": salted,
    }


async def alter(ask: Asking, *upsertions: Any, deletions: Any = ()) -> dict[str, int]:
    body = await ask("AlterUserScramCredentials", 0, {"upsertions": upsertions, "deletions": deletions})
    return {result["user"]: result["error_code"] for result in body["results"]}


async def describe(ask: Asking, *names: str) -> dict[str, Any]:
    body = await ask("DescribeUserScramCredentials", 0, {"users": [{"name": name} for name in names]})
    return {
        result["user"]: result["error_code"]
        or [(one["mechanism"], one["iterations"]) for one in result["credential_infos"]]
        for result in body["results"]
    }


async def test_a_user_that_an_administrator_has_made_logs_in_until_it_is_gone() -> None:
    async with asked(**OPTIONS) as ask:
        await plain(ask, "admin")
        assert await alter(ask, upsertion()) == {"bob": 0}
        assert await describe(ask) == {"admin": [(1, 4096)], "bob": [(1, 4096)]}
        bob = ask.another()
        assert (await scram(bob, "SCRAM-SHA-256", ScramClient("SCRAM-SHA-256", "bob", "bobs")))["error_code"] == 0
        await bob.hang_up()
        assert await alter(ask, deletions=[{"name": "bob", "mechanism": 1}]) == {"bob": 0}
        body = await scram(bob, "SCRAM-SHA-256", ScramClient("SCRAM-SHA-256", "bob", "bobs"))
        assert body["error_code"] == Error.SASL_AUTHENTICATION_FAILED
        await bob.hang_up()
        assert await describe(ask, "bob", "admin", "admin") == {
            "bob": Error.RESOURCE_NOT_FOUND,
            "admin": Error.DUPLICATE_RESOURCE,
        }


@pytest.mark.parametrize(
    ("asked_for", "error"),
    [
        (upsertion(name=""), Error.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), Error.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), Error.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), Error.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), Error.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=-1), Error.UNACCEPTABLE_CREDENTIAL),
    ],
)
async def test_what_no_user_can_have(asked_for: dict[str, Any], error: Error) -> None:
    async with asked() as ask:
        assert await alter(ask, asked_for, upsertion("other")) == {asked_for["name"]: error, "other": 0}


async def test_nobody_is_altered_twice_or_deleted_who_is_not_there() -> None:
    async with asked() as ask:
        assert await alter(ask, upsertion(), upsertion("nobody")) == {"bob": 0, "nobody": 0}
        assert await alter(ask, deletions=[{"name": "nobody", "mechanism": 1}]) == {"nobody": 0}
        deletions = [{"name": "bob", "mechanism": 1}, {"name": "nobody", "mechanism": 1}]
        answers = await alter(
            ask,
            upsertion(),
            upsertion("nobody"),
            upsertion("twice"),
            upsertion("twice", mechanism=2),
            deletions=deletions,
        )
        twice = Error.DUPLICATE_RESOURCE
        assert answers == {"bob": twice, "nobody": Error.RESOURCE_NOT_FOUND, "twice": twice}
        assert await describe(ask) == {"bob": [(1, 4096)]}


def test_users_outlive_a_restart() -> None:
    journal = Memory()
    credential = Credential.of_password("sha512", "secret")
    Cluster(BrokerOptions(), {}, journal=journal).part(Credentials).put("bob", "SCRAM-SHA-512", credential)
    kept = Cluster(BrokerOptions(), {}, journal=journal).part(Credentials)
    assert kept.get("bob", "SCRAM-SHA-512") == credential
    kept.delete("bob", "SCRAM-SHA-512")
    assert Cluster(BrokerOptions(), {}, journal=journal).part(Credentials).users() == []
