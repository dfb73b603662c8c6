"""L040: a coordinator's record that does not have the layout of its version."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors import records
from dissectors.connections.events import RequestReceived, ResponseReceived
from dissectors.diagnosis.diagnose import LIKELY_CONFIDENCE
from dissectors.diagnosis.payloads import PayloadDiagnosis
from dissectors.edits import Edit
from dissectors.embedded.coordinators import COMPONENTS, record_names
from dissectors.findings import Problem, Severity
from dissectors.rules import rule
from dissectors.rules.helpers.group_payloads import deviation
from dissectors.rules.helpers.layout_findings import add_payload_diagnosis
from dissectors.trackers.partitions import label
from dissectors.trackers.record_data import BatchSampler, PartitionData, RecordData, problem_location, record_data
from dissectors.trackers.state import ConnectionState
from dissectors.trackers.triggers import FrameFlags

#: The maximum number of records examined in one batch.
_MAX_RECORDS = 200


@rule(
    "L040",
    severity=Severity.ERROR,
    events=(RequestReceived, ResponseReceived),
    apis=("Produce", "Fetch"),
    only=FrameFlags.IRREGULAR,
    needs=(RecordData,),
    since="0.1",
)
def coordinator_record_layout(
    event: RequestReceived | ResponseReceived, connection: ConnectionState
) -> Iterator[Problem]:
    r"""Checks that the records of coordinators, and the group payloads inside them, have the layout of their version.

    It checks keys and values in ``__consumer_offsets``, ``__transaction_state`` and ``__share_group_state``.

    ## Why it matters
    The broker that becomes the coordinator loads these records: if it cannot read one, it loses commits, groups or
    transactions, or does not become the coordinator.

    ## Usual cause
    A server that implements Kafka's protocol with its own writer for these records; a tool that copies or edits the
    topic.

    ## Example
    ```story
    > Fetch v4 {"topics": [{"topic": "__consumer_offsets", "partitions": [{"partition": 0}]}]}
    # an OffsetCommitValue of version 3 without its leader epoch
    < {"responses": [{"topic": "__consumer_offsets", "partitions": [{"high_watermark": 1, "records": [{"records": [
      {"key": "\u0000\u0001\u0000\u0001g\u0000\u0006orders\u0000\u0000\u0000\u0000",
       "value":
         "\u0000\u0003\u0000\u0000\u0000\u0000\u0000\u0000\u0000*\u0000\u0000\u0000\u0000\u0001\u007fkZ@\u0010"}]}]}]}]}
    ```

    ## Look-alikes
    ```story
    > Fetch v4 {"topics": [{"topic": "__consumer_offsets", "partitions": [{"partition": 0}]}]}
    < {"responses": [{"topic": "__consumer_offsets", "partitions": [{"high_watermark": 1, "records": [{"records": [
      {"key": "\u0000\u0001\u0000\u0001g\u0000\u0006orders\u0000\u0000\u0000\u0000",
       "value":
         "\u0000\u0003\u0000\u0000\u0000\u0000\u0000\u0000\u0000*\u0000\u0000\u0000\u0007\u0000\u0000\u0000\u0000\u0001\u007fkZ@\u0010"}]}]}]}]}
    ```

    ## Sources
    https://github.com/apache/kafka/tree/trunk/group-coordinator/src/main/resources/common/message
    """
    message = event.message
    if message is None:
        return
    for partition_data in record_data(event, connection).parts:
        topic = connection.run.topic_names.get(partition_data.topic_partition[0], partition_data.topic_partition[0])
        if topic in COMPONENTS and connection.state(BatchSampler).selects("coordinator", topic):
            for index, name, diagnosis in _deviations(partition_data, topic):
                batch = partition_data.batches[index]
                problem = Problem(
                    f"{label(partition_data.topic_partition, connection)}, batch {index}: {diagnosis.edit}",
                    **problem_location(event, partition_data, batch.start, batch.end, str(index)),
                    hint=_hint(name, diagnosis.edit),
                    blame="client" if message.is_request or _is_member_payload(diagnosis.edit) else "broker",
                    severity=None if diagnosis.confidence >= LIKELY_CONFIDENCE else Severity.WARNING,
                    cause=f"{topic} {name}",
                )
                yield add_payload_diagnosis(problem, diagnosis)


def _is_member_payload(edit: Edit) -> bool:
    """Return whether the edit is in a payload inside the record, which a member of the group sent."""
    inner: Edit = dict(edit.detail)["edit"]
    return inner.kind == "embedded_layout"


def _hint(name: str, edit: Edit) -> str:
    if _is_member_payload(edit):
        return "the record is right, but not what a member of the group sent: the broker keeps it as it is"
    return f"write every field of the version that the {name} states: the next coordinator reads it"


def _deviations(partition_data: PartitionData, topic: str) -> Iterator[tuple[int, str, PayloadDiagnosis]]:
    """Yield the first malformed record of each batch: the index of the batch, the payload's name, its diagnosis."""
    field = f"{partition_data.path[0]}[].{partition_data.path[2]}[].records"
    for index, batch in enumerate(records.decode(partition_data.row["records"])[: len(partition_data.batches)]):
        if not batch.get("crc_valid") or batch.get("is_control"):
            continue
        if first_deviation := next(_record_deviations(batch.get("records", ())[:_MAX_RECORDS], topic, field), None):
            yield index, *first_deviation


def _record_deviations(
    decoded_records: list[dict[str, bytes | None]], topic: str, field: str
) -> Iterator[tuple[str, PayloadDiagnosis]]:
    for record in decoded_records:
        names = record_names(topic, bytes(record["key"] or b"")) or ()
        for data, name in zip((record["key"], record["value"]), names, strict=False):
            if data and (diagnosis := deviation(bytes(data), (name,), (), field)):
                yield name, diagnosis
