"""AlterUserScramCredentials: sets or removes the SCRAM credentials of users.

Leaves out: nothing. Passwords arrive salted and hashed, and only the derived keys are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from kproxy.broker.access import require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.security.credentials import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM, Credential, Credentials

_MECHANISMS: Final = {code: (name, digest) for name, (code, digest) in SCRAM.items()}


@api("AlterUserScramCredentials")
async def alter_user_scram_credentials(request: Request) -> Body:
    """Return one result per user."""
    credentials = request.cluster.part(Credentials)
    alterations: dict[str, Callable[[], None]] = {}
    results: dict[str, Mapping[str, Any]] = {}
    async for entry in paced((*request.body["deletions"], *request.body["upsertions"])):
        name = entry["name"]
        try:
            require(request, "ALTER", "CLUSTER")
            if alterations.pop(name, None) is not None:
                message = "A user credential cannot be altered twice in the same request"
                raise ApiError(Error.DUPLICATE_RESOURCE, message)
            if name not in results:
                alterations[name] = _prepare_alteration(credentials, entry)
        except ApiError as api_error:
            results[name] = {"error_code": api_error.error, "error_message": api_error.message}
    async for name, alter in paced(alterations.items()):
        alter()
        results[name] = {"error_message": None}
    return {"results": [{"user": name, **result} for name, result in results.items()]}


def _prepare_alteration(credentials: Credentials, entry: Mapping[str, Any]) -> Callable[[], None]:
    """Validate one alteration; return a function that applies it.

    The function is not called if the request contains another alteration for the user.
    """
    name = entry["name"]
    if not name:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if entry["mechanism"] not in _MECHANISMS:
        raise ApiError(Error.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism, digest = _MECHANISMS[entry["mechanism"]]
    if "iterations" not in entry:
        if credentials.get(name, mechanism) is None:
            raise ApiError(Error.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return partial(credentials.delete, name, mechanism)
    if entry["iterations"] < MIN_ITERATIONS:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if entry["iterations"] > MAX_ITERATIONS:
        raise ApiError(Error.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    credentials.check_capacity(name, mechanism)
    credential = Credential.from_salted_password(digest, entry["salt"], entry["salted_password"], entry["iterations"])
    return partial(credentials.put, name, mechanism, credential)
