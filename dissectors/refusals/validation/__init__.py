"""Find what is wrong with a request that was refused, with the validation that Kafka's own handlers do.

`violations` returns what a refused request violates. Each check names the error that Kafka returns, so that a request
is blamed only for violations that lead to the error that it got.
"""

from __future__ import annotations

from itertools import islice

from dissectors.refusals.validation import groups, producers, shares, topics
from dissectors.refusals.validation.violation import VALIDATIONS, Values, Violation

__all__ = ["VALIDATIONS", "Violation", "violations"]

_CHECKS = (groups, producers, shares, topics)

#: The most violations to return; a request may violate a condition in each of its elements.
_MAX_VIOLATIONS = 100


def violations(api: str, body: Values, version: int, code: int) -> list[Violation]:
    """Return the violations in a request for which Kafka returns an error code; values are read with `get`."""
    matching = (
        violation for check in VALIDATIONS.get(api, ()) for violation in check(body, version) if violation.error == code
    )
    return list(islice(matching, _MAX_VIOLATIONS))
