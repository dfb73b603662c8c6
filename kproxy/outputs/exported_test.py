"""An exchange as a pytest file that sends its request to a broker and checks the response."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any, Final

from kproxy.client.checked_response import CheckedResponse
from kproxy.escaping import python_comment, python_docstring
from kproxy.inspection.explain import Explanation

_HEX_WIDTH: Final = 80
_MAX_COMMENT_VALUE: Final = 40  # characters of a value in a comment


def exported_test(command: str, request: Explanation, response: CheckedResponse | None) -> str:
    """Return the content of the file. Its test uses the fixture ``kproxy_exchange`` of `kproxy.pytest_plugin`.

    If the recorded response has findings, the test fails as long as the broker's response has them too. Otherwise it
    fails unless the response has the same error codes. Without a recorded response, a response without findings must
    arrive.

    Args:
        command: The command line that writes the file, for its docstring.
        request: The request.
        response: The recorded response, if there is one.
    """
    message = request.message
    name = f"{message.api} v{message.version}"
    findings = response.findings if response else {}
    recorded_findings = "no response" if response is None else ", ".join(findings) if findings else "no finding"
    function_name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message.api)
    function_name = re.sub(r"[^a-z0-9_]", "_", function_name.lower())
    checks = "".join(f"    {line}\n" for line in _check_lines(response))
    return (
        f'"""{python_docstring(f"{name}, recorded with {recorded_findings}. Written by {command}")}\n\n'
        f"Run it with pytest --kproxy-target HOST:PORT, or set KPROXY_TARGET.\n"
        f'"""\n\nREQUEST = bytes.fromhex(\n{"".join(_hex_lines(request))})\n\n\n'
        f"def test_{function_name}_v{message.version}(kproxy_exchange):\n{checks}"
    )


def _check_lines(response: CheckedResponse | None) -> Iterator[str]:
    yield "response = kproxy_exchange(REQUEST)"
    if response is None or not response.findings:
        yield "assert response.findings == {}"
    else:
        for code, message in response.findings.items():
            yield from (f"# {line}" for line in textwrap.wrap(python_comment(f"{code}: {message}"), 100))
            yield f"assert {json.dumps(code)} not in response.findings"
    yield "assert response.well_formed"
    if response is not None and not response.findings:
        yield f"assert response.errors == {json.dumps(response.errors)}"


def _hex_lines(request: Explanation) -> Iterator[str]:
    """Yield a line of hex per field, with the field in a comment."""
    written_end = 0
    for row in request.rows:
        if row.start != written_end or row.end == written_end:  # a field in compressed bytes has their whole span
            continue
        written_end = row.end
        *first_lines, last = textwrap.wrap(request.frame[row.start : row.end].hex(), _HEX_WIDTH)
        yield from (f'    "{text}"\n' for text in first_lines)
        yield f'    "{last}"  # {python_comment(row.path)}{_comment_text(row.value, row.meaning)}\n'


def _comment_text(value: Any, meaning: str | None) -> str:
    suffix = "" if value is None or isinstance(value, bytes | memoryview) else f": {ascii(value)[:_MAX_COMMENT_VALUE]}"
    return suffix + (f" ({ascii(meaning)[1:-1][:_MAX_COMMENT_VALUE]})" if meaning else "")
