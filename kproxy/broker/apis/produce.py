"""Produce: appends batches to the logs of partitions that this broker leads.

Batches are stored as sent, with their offsets set; formats 0 and 1 are converted to format 2. Followers are always in
sync, so acks=all waits only for the disk, if fsync is enabled.

Leaves out: batches that decompress to more than 64 MiB, which are rejected; log compaction (with
cleanup.policy=compact, records need keys, and all of them are kept).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dissectors.records.formats import entries
from kproxy.broker.access import is_allowed, require
from kproxy.broker.errors import ApiError, Error
from kproxy.broker.leaders import LeaderHints
from kproxy.broker.log.appending import append
from kproxy.broker.log.batch import Header, read_header
from kproxy.broker.log.settings import LogSettings, settings
from kproxy.broker.log.validation import RecordValidationError
from kproxy.broker.pacing import paced
from kproxy.broker.registry import Body, api
from kproxy.broker.request import Request
from kproxy.broker.throttling import PRODUCE, throttle
from kproxy.broker.topics import Partition, Topic, Topics
from kproxy.broker.transactions.verify import verify_produce

_ACKS_ALL: Final = -1
_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13  # version
_ZSTD: Final = 4
_HEADER_SIZE: Final = 61
_ADMIN_CLIENT: Final = "__admin_client"
#: Errors for which Kafka does not return the log start offset.
_ERRORS_WITHOUT_LOG_START: Final = (Error.CORRUPT_MESSAGE, Error.MESSAGE_TOO_LARGE, Error.KAFKA_STORAGE_ERROR)


@api("Produce")
async def produce(request: Request) -> Body:
    """Append the batches, and respond unless acks is 0; with acks=0, an error closes the connection."""
    body, leaders = request.body, LeaderHints(request)
    request_error = _request_error(request)
    responses = []
    appended: list[tuple[Partition, dict[str, Any]]] = []
    async for data in paced(body["topic_data"]):
        topic, error = _find_topic(request, data)
        partitions = []
        async for partition_data in paced(data["partition_data"]):
            result: dict[str, Any] = {"index": partition_data["index"], "base_offset": -1}
            partitions.append(result)
            if request_error or error:
                result["error_code"] = request_error or error
            elif (partition := _append(request, topic, partition_data, result, leaders)) is not None:
                appended.append((partition, result))
        responses.append(
            {"name": data.get("name"), "topic_id": data.get("topic_id"), "partition_responses": partitions}
        )
    if body["acks"] == _ACKS_ALL:
        for partition, result in appended:
            try:
                await partition.log.wait_until_synced()
            except ApiError as api_error:
                result |= {"error_code": api_error.error, "base_offset": -1}
    byte_count = sum(
        len(partition["records"] or b"") for topic in body["topic_data"] for partition in topic["partition_data"]
    )
    throttle_ms = throttle(request, PRODUCE, byte_count)
    if body["acks"] == 0:
        has_failed = any(
            partition_response.get("error_code")
            for response in responses
            for partition_response in response["partition_responses"]
        )
        request.session.closing |= has_failed
        return None
    return {"responses": responses, "throttle_time_ms": throttle_ms, "node_endpoints": leaders.endpoints()}


def _request_error(request: Request) -> Error:
    """Return the error that applies to the whole request, or `Error.NONE`."""
    body = request.body
    transactional_id = body.get("transactional_id")
    data = (partition["records"] for topic in body["topic_data"] for partition in topic["partition_data"])
    if any(header.transactional for header in map(_first_header, data) if header is not None) and (
        transactional_id is None or not is_allowed(request, "WRITE", "TRANSACTIONAL_ID", transactional_id)
    ):
        return Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Error.NONE if body["acks"] in (_ACKS_ALL, 0, 1) else Error.INVALID_REQUIRED_ACKS


def _find_topic(request: Request, data: Mapping[str, Any]) -> tuple[Topic, Error]:
    topics = request.cluster.part(Topics)
    try:
        topic = topics.find(data.get("name"), data.get("topic_id"))
        require(request, "WRITE", "TOPIC", topic.name)
        if topic.internal and request.client_id != _ADMIN_CLIENT:
            raise ApiError(Error.INVALID_TOPIC_EXCEPTION)
    except ApiError as api_error:
        is_unknown = (
            request.version >= _FIRST_VERSION_WITH_TOPIC_IDS and api_error.error is Error.UNKNOWN_TOPIC_OR_PARTITION
        )
        return Topic("", "", []), Error.UNKNOWN_TOPIC_ID if is_unknown else api_error.error
    return topic, Error.NONE


def _append(
    request: Request, topic: Topic, data: Mapping[str, Any], result: dict[str, Any], leaders: LeaderHints
) -> Partition | None:
    """Append to one partition, and fill in its result; return the partition if that succeeds."""
    topics, cluster = request.cluster.part(Topics), request.cluster
    log_settings, index = settings(cluster, topic.name), data["index"]
    try:
        _check_version(request.version, data["records"])
        partition = topics.find_led_partition(request.node, topic, index)
        _check_transaction(request, partition, data["records"])
        result["log_start_offset"] = partition.log.start_offset
        _check_replicas(request, partition, log_settings)
        append_result = append(partition.log, data["records"] or memoryview(b""), log_settings, cluster.clock.now())
    except ApiError as api_error:
        result["error_code"] = api_error.error
        if api_error.error in _ERRORS_WITHOUT_LOG_START:
            result["log_start_offset"] = -1
        if api_error.error is Error.NOT_LEADER_OR_FOLLOWER:
            result["current_leader"] = leaders.current_leader(topics.partition(topic.name, index))
        if isinstance(api_error, RecordValidationError):
            result["error_message"] = api_error.message
            result["record_errors"] = [
                {"batch_index": record_index, "batch_index_error_message": message}
                for record_index, message in api_error.records
            ]
        return None
    result |= {"base_offset": append_result.base_offset, "log_append_time_ms": append_result.append_time}
    result["log_start_offset"] = partition.log.start_offset
    return partition


def _check_version(version: int, data: memoryview | None) -> None:
    """Raise `ApiError` unless this version of Produce allows the batches (ProduceRequest.validateRecords)."""
    if version < 3:
        return
    batch_entries = list(entries(data or b"", 0, len(data or b"")))
    if batch_entries and batch_entries[-1].fault is not None:
        raise ApiError(Error.CORRUPT_MESSAGE, batch_entries[-1].fault.message)
    magics = [entry.magic for entry in batch_entries if entry.magic is not None]
    if magics != [2]:
        raise ApiError(Error.INVALID_RECORD, f"Produce v{version} takes one batch of format 2")
    header = _first_header(data)
    if version < 7 and header is not None and header.attributes & 7 == _ZSTD:
        raise ApiError(Error.UNSUPPORTED_COMPRESSION_TYPE, f"Produce v{version} does not allow ZStandard compression")


def _check_replicas(request: Request, partition: Partition, log_settings: LogSettings) -> None:
    expected = min(log_settings.min_insync_replicas, len(partition.replicas))
    if request.body["acks"] == _ACKS_ALL and len(partition.isr) < expected:
        raise ApiError(Error.NOT_ENOUGH_REPLICAS, f"{len(partition.isr)} in-sync replicas, {expected} required")


def _check_transaction(request: Request, partition: Partition, data: memoryview | None) -> None:
    """Let the transaction coordinator verify the first batch of a transaction in a partition."""
    header = _first_header(data)
    if header is None or not header.transactional or header.producer_id < 0:
        return
    state = partition.log.producers.get(header.producer_id)
    if state is None or state.transaction_start is None or state.epoch != header.producer_epoch:
        topic_partition = partition.topic, partition.index
        transactional_id = request.body["transactional_id"]
        verify_produce(request, transactional_id, header.producer_id, header.producer_epoch, topic_partition)


def _first_header(data: memoryview | None) -> Header | None:
    """Return the header of the first batch if it has format 2."""
    return read_header(data) if data is not None and len(data) >= _HEADER_SIZE and data[16] == 2 else None
