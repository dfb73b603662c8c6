"""S009: clients that request Metadata continuously."""

from __future__ import annotations

from pyspark.sql import functions as F

from kproxy.spark.derived.rates import BusyCondition
from kproxy.spark.rules import BusyRule, busy_rule, message

#: Metadata requests per minute on one connection: a failing client retries once a second (retry.backoff.max.ms), other
#: clients refresh every five minutes (metadata.max.age.ms).
_MIN_REQUESTS = 60


@busy_rule(
    "S009",
    hint="check which error the responses repeat (kproxy analyze --job metadata-storms), and whether the client "
    "requests Metadata explicitly, for each request or message",
)
def metadata_storm() -> BusyRule:
    """Find minutes with sixty or more Metadata responses on one connection.

    Lines do not show whether a client requests all topics; the job metadata-storms has the number of topics in a
    response.
    """
    is_metadata_response = (F.col("kind") == "response") & (F.col("api") == "Metadata")
    text = message(
        "client %s requested Metadata from %s %d times in a minute, on one connection", "client", "broker", "hits"
    )
    return BusyRule(BusyCondition(is_metadata_response, F.lit(True), least=_MIN_REQUESTS), text)
