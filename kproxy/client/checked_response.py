"""Sends one frame to a broker and returns the decoded response with its findings, for tests of a broker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dissectors.messages import summary
from kproxy.client.connection import connect
from kproxy.client.exchange import send_pipelined
from kproxy.errors import FINDINGS, UserError
from kproxy.inspection.explain import Explanation, explain
from kproxy.proxy.address import parse_upstream


@dataclass(frozen=True, slots=True)
class CheckedResponse:
    """A response; `explanation` has every field with its bytes."""

    explanation: Explanation = field(repr=False)

    @property
    def well_formed(self) -> bool:
        """Whether Kafka's layout decodes the whole frame."""
        return self.explanation.message.well_formed

    @property
    def body(self) -> dict[str, Any]:
        """The decoded fields, as in a trace at full detail."""
        return self.explanation.body

    @property
    def errors(self) -> dict[str, str]:
        """The names of the nonzero error codes, by path."""
        return {error.path: error.name for error in summary.errors(self.explanation.message)}

    @property
    def findings(self) -> dict[str, str]:
        """The messages of the findings that do not blame the client, by rule code."""
        return {
            finding.code: finding.problem.message for finding in self.explanation.findings if finding.blame != "client"
        }


async def exchange(address: str, frame: bytes, *, within: float = 10.0) -> CheckedResponse | None:
    """Send one request frame to a broker, in plaintext, and return its response.

    Args:
        address: ``HOST:PORT``.
        frame: With its length prefix, as `dissectors.encode_request` makes it, or wrong on purpose.
        within: The time limit for the connection, and again for the response (s).

    Returns:
        None if no response is expected (Produce with acks=0).

    Raises:
        ValueError: The address is invalid.
        UserError: The broker cannot be reached, no response arrives, or the response has a different correlation id.
    """
    connection = await connect(parse_upstream(address, "address"), within)
    try:
        [sent_request] = await send_pipelined(connection, [frame])
    finally:
        connection.close()
    if sent_request.problem is not None:
        raise UserError(sent_request.problem, FINDINGS)
    return None if sent_request.response is None else CheckedResponse(explain(sent_request.response, frame))
