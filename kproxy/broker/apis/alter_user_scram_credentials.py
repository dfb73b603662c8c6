"""AlterUserScramCredentials: gives users the keys that they log in with over SCRAM, or takes them away.

Leaves out: nothing. What is sent of a password is salted and hashed, and kept as the keys that follow from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import Error, Refused
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.credentials import LEAST_ITERATIONS, MOST_ITERATIONS, SCRAM, Credential, Credentials

_MECHANISMS: Final = {code: (name, digest) for name, (code, digest) in SCRAM.items()}


@api("AlterUserScramCredentials")
async def alter_user_scram_credentials(request: Request) -> Body:
    """Answer for each user, once."""
    credentials = request.cluster.part(Credentials)
    deletions, upsertions = request.body["deletions"], request.body["upsertions"]
    counts = Counter(each["name"] for each in (*deletions, *upsertions))
    results = {}
    for asked in (*deletions, *upsertions):
        name = asked["name"]
        try:
            require(request, "ALTER", "CLUSTER")
            if counts[name] > 1:
                message = "A user credential cannot be altered twice in the same request"
                raise Refused(Error.DUPLICATE_RESOURCE, message)
            _alter(credentials, asked)
            results[name] = {"user": name, "error_message": None}
        except Refused as refused:
            results[name] = {"user": name, "error_code": refused.error, "error_message": refused.message}
    await request.cluster.journal.synced()
    return {"results": list(results.values())}


def _alter(credentials: Credentials, asked: Mapping[str, Any]) -> None:
    name = asked["name"]
    if not name:
        raise Refused(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if asked["mechanism"] not in _MECHANISMS:
        raise Refused(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism, digest = _MECHANISMS[asked["mechanism"]]
    if "iterations" not in asked:
        if credentials.get(name, mechanism) is None:
            raise Refused(Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        credentials.delete(name, mechanism)
        return
    if asked["iterations"] < LEAST_ITERATIONS:
        raise Refused(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if asked["iterations"] > MOST_ITERATIONS:
        raise Refused(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    made = Credential.of_salted(digest, asked["salt"], asked["salted_password"], asked["iterations"])
    credentials.put(name, mechanism, made)
