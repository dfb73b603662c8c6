"""The exceptions of engines, whichever engine is installed."""

from __future__ import annotations

from pyspark.errors import PySparkException

try:
    from py4j.protocol import Py4JError
except ImportError:  # pyspark-client has no Java to talk to

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Never raised."""


#: The exceptions that an engine raises.
ENGINE_ERRORS = (PySparkException, Py4JError)
