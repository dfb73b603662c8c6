"""Errors about authentication, authorization and credentials; rules of family X say more about most of them."""

from __future__ import annotations

from typing import Final

from dissectors.refusals.judgement import Harm, Judgements, final_error
from dissectors.schemas.codes import Error

_ACL = "grant it with kafka-acls --add, or check which principal the client logs in as"
_TOKENS = "create tokens over a connection with SASL or mutual TLS, not with a token itself"

ERRORS: Final[Judgements] = {
    Error.TOPIC_AUTHORIZATION_FAILED: final_error("the client may not use this topic", _ACL, harm=Harm.DATA),
    Error.GROUP_AUTHORIZATION_FAILED: final_error("the client may not use this group", _ACL, harm=Harm.DATA),
    Error.CLUSTER_AUTHORIZATION_FAILED: final_error("the client may not do this in the cluster", _ACL, harm=Harm.DATA),
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: final_error(
        "the client may not use this transactional id", _ACL, harm=Harm.DATA
    ),
    Error.DELEGATION_TOKEN_AUTHORIZATION_FAILED: final_error("the client may not use this delegation token", _ACL),
    Error.UNSUPPORTED_SASL_MECHANISM: final_error(
        "the broker does not have the SASL mechanism",
        "set sasl.mechanism of the client to one of the broker's sasl.enabled.mechanisms", harm=Harm.DATA,
    ),
    Error.ILLEGAL_SASL_STATE: final_error(
        "the request came before authentication was complete", "the client must authenticate first", harm=Harm.DATA
    ),
    Error.SASL_AUTHENTICATION_FAILED: final_error(
        "the broker refused the credentials", "check user name, password or token of the client", harm=Harm.DATA
    ),
    Error.SECURITY_DISABLED: final_error(
        "the broker has no authorizer, so it has no ACLs",
        "set authorizer.class.name on the brokers, if ACLs are wanted",
        blame="broker", harm=Harm.NONE,
    ),
    Error.DELEGATION_TOKEN_AUTH_DISABLED: final_error(
        "delegation tokens are disabled", "set delegation.token.secret.key on the brokers", blame="broker"
    ),
    Error.DELEGATION_TOKEN_NOT_FOUND: final_error("the delegation token does not exist", "create a new token"),
    Error.DELEGATION_TOKEN_OWNER_MISMATCH: final_error(
        "the delegation token has another owner", "use the token's owner"
    ),
    Error.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: final_error(
        "this connection may not request delegation tokens", _TOKENS
    ),
    Error.DELEGATION_TOKEN_EXPIRED: final_error(
        "the delegation token has expired", "create a new token, and renew it in time"
    ),
    Error.INVALID_PRINCIPAL_TYPE: final_error(
        "the type of the principal is not supported", "use principals of type User"
    ),
    Error.UNACCEPTABLE_CREDENTIAL: final_error(
        "the credential is not acceptable", "use SCRAM with 4096 to 16384 iterations, and a user name that is not empty"
    ),
    Error.PRINCIPAL_DESERIALIZATION_FAILURE: final_error(
        "the controller cannot read the principal of a forwarded request",
        "give brokers and controllers the same principal.builder.class", blame="broker",
    ),
}  # fmt: skip
