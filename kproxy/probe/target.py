"""Target: the broker under test. It opens connections and sends requests, and fails the check if that fails."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from dissectors import schemas
from dissectors.messages.message import Message, read_response
from kproxy.client.connection import BrokerConnection, ClientTls, NoResponse, connect
from kproxy.client.exchange import correlation_id_mismatch
from kproxy.client.login import ClientLogin, log_in
from kproxy.client.request import CLIENT_ID, ClientRequest, api_of
from kproxy.client.versions import VersionRanges, fetch_versions_from, newest_version
from kproxy.errors import UserError
from kproxy.inspection.explain import Explanation, explain
from kproxy.probe.check import BrokerGone, CheckFailed, CheckSkipped
from kproxy.proxy.address import Address


@dataclass(frozen=True, slots=True)
class BrokerResponse:
    """A request frame, its response frame, and the decoded response."""

    request: bytes
    response: bytes
    message: Message

    @property
    def body(self) -> dict[str, Any]:
        """The values of the response by snake_case name."""
        return self.message.body

    @property
    def evidence(self) -> tuple[Explanation, Explanation]:
        """The request and the response explained, for `CheckFailed`."""
        return explain(self.request), explain(self.response, self.request)

    def failure(self, sentence: str) -> CheckFailed:
        """Return the error that fails a check because of this response."""
        return CheckFailed(sentence, *self.evidence)


@dataclass(slots=True)
class Target:
    """How to reach the broker, and the versions that it advertises.

    `within` is the time limit of a response in seconds. `opened` lists all connections so far.
    """

    address: Address
    within: float
    tls: ClientTls | None = None
    login: ClientLogin | None = None
    served: VersionRanges = field(default_factory=dict)
    prefix: str = "kproxy-probe"
    client_id: str = CLIENT_ID
    opened: list[BrokerConnection] = field(default_factory=list)
    _run_id: str = field(default_factory=lambda: secrets.token_hex(4))
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    async def learn_versions(self) -> None:
        """Ask for the advertised versions.

        Raises:
            UserError: The broker cannot be reached, or its ApiVersions response is unusable.
        """
        self.served = await fetch_versions_from(self.address, self.within, self.tls)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[BrokerConnection]:
        """Open a new connection, logged in if the user gave a login, and close it at the end."""
        try:
            connection = await connect(self.address, self.within, self.tls)
        except UserError as error:
            raise BrokerGone(str(error).partition(";")[0]) from None
        self.opened.append(connection)
        try:
            if self.login is not None:
                await log_in(connection, self.login, self.served)
            yield connection
        except UserError as error:
            raise CheckFailed(str(error)) from None
        finally:
            connection.close()

    async def is_gone(self) -> bool:
        """Whether the broker no longer accepts connections, regardless of whether it answers requests."""
        try:
            async with self.connection() as connection:
                with suppress(NoResponse):
                    connection.send(self.frame(connection, "ApiVersions", 0))
                    await connection.receive(min(self.within, 1))
        except BrokerGone:
            return True
        except CheckFailed:  # the login
            pass
        return False

    def version(self, api: str, at_least: int = 0) -> int:
        """Return the newest version that both the broker and kproxy know; skip the check if it is below `at_least`."""
        try:
            version = newest_version(api_of(api), self.served)
        except UserError:
            raise CheckSkipped(f"the broker does not serve {api}") from None
        if version < at_least:
            raise CheckSkipped(f"the broker serves {api} only up to v{version}, not v{at_least}")
        return version

    def frame(self, connection: BrokerConnection, api: str, version: int | None = None, **values: object) -> bytes:
        """Return a request frame with the next correlation id."""
        kafka_api = api_of(api)
        chosen_version = self.version(api) if version is None else version
        return ClientRequest(kafka_api, chosen_version, values).frame(connection.next_correlation_id(), self.client_id)

    async def request(
        self, connection: BrokerConnection, api: str, version: int | None = None, **values: object
    ) -> BrokerResponse:
        """Send a request and receive its response, which must decode and have the same correlation id."""
        request = self.frame(connection, api, version, **values)
        connection.send(request)
        return await self.receive(connection, request)

    async def receive(self, connection: BrokerConnection, request: bytes) -> BrokerResponse:
        """Receive the response to a request that was sent; fail the check unless it decodes."""
        response = await self.receive_any(connection, request)
        if response.message.error or response.message.opaque:
            raise response.failure(f"the {request_name(request)} response does not decode")
        return response

    async def receive_any(self, connection: BrokerConnection, request: bytes) -> BrokerResponse:
        """Receive the response to a request that was sent, whether or not it decodes."""
        try:
            frame = await connection.receive()
        except NoResponse as no_response:
            raise CheckFailed(f"{request_name(request)}: {no_response}", explain(request)) from None
        key, version = (int.from_bytes(request[offset : offset + 2], "big", signed=True) for offset in (4, 6))
        response = BrokerResponse(request, frame, read_response(frame, key, version))
        if mismatch := correlation_id_mismatch(request, frame):
            raise response.failure(f"{request_name(request)}: {mismatch}")
        return response

    async def receive_refusal(self, connection: BrokerConnection, description: str) -> bytes | None:
        """Return the response to a request that the broker must reject, None if it closes the connection instead.

        Fail the check if it does neither. `description` names what was sent.
        """
        try:
            return await connection.receive()
        except NoResponse as no_response:
            if not no_response.closed:
                raise CheckFailed(f"{description} is neither answered nor does it close the connection") from None
            return None

    async def expect_close(self, connection: BrokerConnection, description: str) -> None:
        """Fail unless the broker closes the connection; `description` names what was sent."""
        if (response := await self.receive_refusal(connection, description)) is not None:
            raise CheckFailed(f"{description} is answered with {len(response)} bytes: {response[:16].hex(' ')}")

    async def expect_still_serving(self) -> None:
        """Check, on another connection, that the broker has survived what a check sent."""
        async with self.connection() as connection:
            try:
                await self.request(connection, "ApiVersions", 0)
            except CheckFailed as error:
                raise CheckFailed(f"the broker does not survive it: on another connection, {error}") from None

    def new_name(self, kind: str) -> str:
        """Return a name for a topic, group or transaction that no other check uses, in this or any other run."""
        return f"{self.prefix}-{kind}-{self._run_id}-{next(self._numbers)}"


def request_name(request: bytes) -> str:
    """Return the API and version of a request frame: ``Metadata v9``."""
    key, version = (int.from_bytes(request[offset : offset + 2], "big", signed=True) for offset in (4, 6))
    api = schemas.api(key)
    return f"{api.name if api else f'API {key}'} v{version}"
