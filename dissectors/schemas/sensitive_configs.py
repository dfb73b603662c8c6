"""Names of configs whose values are secrets."""

from __future__ import annotations

import re
from typing import Final

_SENSITIVE: Final = re.compile(
    r"pass(word|phrase)|secret|jaas|credential|master\.key|keystore\.key|truststore\.certificates|certificate\.chain",
    re.IGNORECASE,
)


def is_sensitive_config(name: str) -> bool:
    """Whether Kafka treats the value of a config with this name as a password."""
    return _SENSITIVE.search(name) is not None
