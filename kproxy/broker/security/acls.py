"""ACLs: authorization as in Kafka's StandardAuthorizer."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dissectors import schemas
from kproxy.broker.errors import ApiError, Error

if TYPE_CHECKING:
    from kproxy.broker.cluster import Cluster
    from kproxy.broker.request import ClientSession

_ANY, _MATCH, _LITERAL, _PREFIXED = 1, 2, 3, 4
_DENY, _ALLOW = 2, 3
_WILDCARD: Final = "*"
_MAX_ACLS: Final = 10_000
_TABLE: Final = "acls"
#: The fields of ACLs and filters with codes, in all versions.
_CODES: Final = ("resource_type", "resource_type_filter", "resource_pattern_type", "pattern_type_filter", "operation",
                 "permission_type")  # fmt: skip

#: Operation -> operations that imply it: permission for one of these is also permission for the key.
_IMPLIED_BY: Final[Mapping[str, tuple[str, ...]]] = {
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}


class Acl(NamedTuple):
    """An ACL; resource types, pattern types, operations and permissions are Kafka's codes."""

    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def covers(self, name: str) -> bool:
        """Whether the ACL applies to the resource with that name."""
        if self.pattern == _PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, _WILDCARD)

    def applies_to(self, principal: str, host: str, operations: frozenset[int]) -> bool:
        """Whether the ACL applies to the principal, the host and one of the operations."""
        return (
            self.principal in (principal, "User:*")
            and self.host in (host, _WILDCARD)
            and (self.operation in operations or self.operation == codes("acl_operation")["ALL"])
        )


class AclFilter(NamedTuple):
    """A filter for ACLs; None and the code for ANY match everything."""

    kind: int
    name: str | None
    pattern: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def matches(self, acl: Acl) -> bool:
        """Whether the filter matches an ACL."""
        return (
            self.kind in (_ANY, acl.kind)
            and self.pattern in (_ANY, _MATCH, acl.pattern)
            and (self.name is None or self.name == acl.name or (self.pattern == _MATCH and acl.covers(self.name)))
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (_ANY, acl.operation)
            and self.permission in (_ANY, acl.permission)
        )


def close_on_unknown_code(session: ClientSession, entries: Iterable[Mapping[str, Any]]) -> bool:
    """Close the session, as Kafka does, if an entry has the code 0 (UNKNOWN); return whether the session will close.

    Kafka's clients cannot send that code, and its brokers cannot decode a request with it
    (org.apache.kafka.common.requests.CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest). They can decode codes
    that no release defines.
    """
    session.closing |= any(entry.get(name) == 0 for entry in entries for name in _CODES)
    return session.closing


def read_filter(body: Mapping[str, Any]) -> AclFilter:
    """Parse the filter in a request."""
    return AclFilter(
        body["resource_type_filter"],
        body["resource_name_filter"],
        body.get("pattern_type_filter", _LITERAL),
        body["principal_filter"],
        body["host_filter"],
        body["operation"],
        body["permission_type"],
    )


def check_filter(acl_filter: AclFilter) -> None:
    """Check a filter in DeleteAcls; DescribeAcls accepts any filter.

    Raises:
        ApiError: INVALID_REQUEST for unknown codes.
    """
    if acl_filter.kind not in _known_codes("resource_type") or acl_filter.pattern not in _known_codes("pattern_type"):
        raise ApiError(Error.INVALID_REQUEST, "Unknown patternFilter.")
    if acl_filter.operation not in _known_codes("acl_operation") or acl_filter.permission not in _known_codes(
        "acl_permission_type"
    ):
        raise ApiError(Error.INVALID_REQUEST, "Unknown entryFilter.")


class Acls:
    """The ACLs of a cluster. Unless they are `enabled`, there are none, and everything is allowed.

    They are enabled, and super users are set, by options or by the configs of Kafka's StandardAuthorizer.
    """

    def __init__(self, cluster: Cluster) -> None:
        options, configs = cluster.options, cluster.options.configs
        self.enabled = options.acls or bool(configs.get("authorizer.class.name"))
        configured_users = (principal.strip() for principal in configs.get("super.users", "").split(";"))
        self._super_users = frozenset((*options.super_users, *configured_users)) - {""}
        self._allowed_without_acl = configs.get("allow.everyone.if.no.acl.found") == "true"
        self._journal = cluster.journal
        self._acls = dict.fromkeys(Acl(*json.loads(key)) for key, _ in self._journal.entries(_TABLE))

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def allow(self, principal: str, host: str, operation: str, kind: str, name: str) -> bool:
        """Whether an operation is allowed; names are Kafka's, e.g. ``READ`` on a ``TOPIC``.

        Deny takes precedence over allow. Without any ACL for the resource, only super users are allowed, or everybody
        if ``allow.everyone.if.no.acl.found`` is true.
        """
        if not self.enabled or principal in self._super_users:
            return True
        kind_code = codes("resource_type")[kind]
        resource_acls = [acl for acl in self if acl.kind == kind_code and acl.covers(name)]
        if not resource_acls:
            return self._allowed_without_acl
        return not _any_applies(resource_acls, _DENY, principal, host, operation) and _any_applies(
            resource_acls, _ALLOW, principal, host, operation
        )

    def allows_any(self, principal: str, host: str, operation: str, kind: str) -> bool:
        """Whether an operation is allowed on at least one resource of a type (KIP-679)."""
        if not self.enabled or principal in self._super_users:
            return True
        kind_code, operations = codes("resource_type")[kind], _implying_operations(operation, _ALLOW)
        applicable = [acl for acl in self if acl.kind == kind_code and acl.applies_to(principal, host, operations)]
        denied = [acl for acl in applicable if acl.permission == _DENY]
        allowed = [acl for acl in applicable if acl.permission == _ALLOW]
        if not applicable:
            return self._allowed_without_acl
        return any(not any(_covers(acl, allowed_acl) for acl in denied) for allowed_acl in allowed)

    def create(self, acl: Acl) -> None:
        """Add an ACL, unless it already exists.

        Raises:
            ApiError: INVALID_REQUEST.
        """
        _check_acl(acl)
        if acl not in self._acls:
            if len(self._acls) >= _MAX_ACLS:
                raise ApiError(Error.INVALID_REQUEST, f"there are {_MAX_ACLS} ACLs already")
            self._acls[acl] = None
            self._journal.put(_TABLE, json.dumps(acl), {})

    def matching_acls(self, acl_filter: AclFilter) -> list[Acl]:
        """Return the ACLs that match a filter."""
        return [acl for acl in self if acl_filter.matches(acl)]

    def delete(self, acl: Acl) -> None:
        """Delete an ACL, if it exists."""
        self._acls.pop(acl, None)
        self._journal.put(_TABLE, json.dumps(acl), None)


def _any_applies(acls: list[Acl], permission: int, principal: str, host: str, operation: str) -> bool:
    operations = _implying_operations(operation, permission)
    return any(acl.permission == permission and acl.applies_to(principal, host, operations) for acl in acls)


@functools.cache
def _implying_operations(operation: str, permission: int) -> frozenset[int]:
    """Return the codes of operations whose permission (or denial) in an ACL also applies to this operation."""
    implying = _IMPLIED_BY.get(operation, ()) if permission == _ALLOW else ()
    return frozenset(codes("acl_operation")[name] for name in (operation, *implying))


def _covers(denied: Acl, allowed: Acl) -> bool:
    """Whether a denial covers everything that an ACL allows."""
    if denied.pattern == _LITERAL:
        return denied.name == _WILDCARD or (allowed.pattern == _LITERAL and allowed.name == denied.name)
    return allowed.name.startswith(denied.name) and allowed.name != _WILDCARD


def _check_acl(acl: Acl) -> None:
    checks = (
        (acl.kind in _known_codes("resource_type") and acl.kind != _ANY, f"Invalid resourceType {acl.kind}"),
        (acl.pattern in (_LITERAL, _PREFIXED), f"Invalid patternType {acl.pattern}"),
        (
            acl.operation in _known_codes("acl_operation") and acl.operation != _ANY,
            f"Invalid operation {acl.operation}",
        ),
        (acl.permission in (_DENY, _ALLOW), f"Invalid permissionType {acl.permission}"),
        (bool(acl.name), "Resource name should not be empty"),
        (
            ":" in acl.principal,
            f"Could not parse principal from `{acl.principal}` "
            "(no colon is present separating the principal type from the principal name)",
        ),
    )
    for is_valid, message in checks:
        if not is_valid:
            raise ApiError(Error.INVALID_REQUEST, message)


@functools.cache
def codes(table: str) -> Mapping[str, int]:
    """Return the codes of an enum in the schemas, by name."""
    return {name: code for code, name in schemas.enum(table).items()}


def _known_codes(table: str) -> frozenset[int]:
    return frozenset(schemas.enum(table)) - {0}
