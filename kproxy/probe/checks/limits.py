"""Names and sizes at and beyond Kafka's limits."""

from __future__ import annotations

from dissectors.schemas.codes import Error
from kproxy.probe.check import CheckFailed, check
from kproxy.probe.scratch import batch, create_topic, expect, scratch_topic, values_of
from kproxy.probe.target import Target

_TOPIC = "clients/src/main/java/org/apache/kafka/common/internals/Topic.java"
_MAX_NAME_LENGTH = 249
_LARGE_SIZE = 2 << 20  # twice the default of max.message.bytes


@check("limits/longest-name", _TOPIC, writes=True)
async def check_longest_name(target: Target) -> None:
    """A topic name of 249 characters is accepted, and one of 250 is not.

    Longer names would not fit into directory names.
    """
    longest = target.new_name("topic").ljust(_MAX_NAME_LENGTH, "x")
    async with scratch_topic(target, longest) as topic:
        expect((await topic.produce(batch(b"x")))["error_code"], Error.NONE, "Produce to a topic with a long name")
    await _check_rejected(target, longest + "x", "a topic name of 250 characters")


@check("limits/invalid-name", _TOPIC, writes=True)
async def check_invalid_name(target: Target) -> None:
    """A topic name with other characters than letters, digits, dots, dashes and underscores is rejected.

    Metrics, paths and ACLs of tools rely on these characters.
    """
    for name in (target.new_name("a b"), target.new_name("größe"), target.new_name("slash/")):
        await _check_rejected(target, name, f"the topic name {name!r}")


@check("limits/large-record", "KIP-4", "max.message.bytes", writes=True)
async def check_large_record(target: Target) -> None:
    """A record of 2 MiB is either stored or rejected with MESSAGE_TOO_LARGE; the connection stays open.

    Closing the connection instead makes producers repeat the record forever.
    """
    async with scratch_topic(target) as topic:
        large = b"x" * _LARGE_SIZE
        code = (await topic.produce(batch(large)))["error_code"]
        if code != Error.MESSAGE_TOO_LARGE:
            expect(code, Error.NONE, "Produce of 2 MiB")
            if values_of((await topic.fetch(max_bytes=2 * _LARGE_SIZE))["records"]) != [large]:
                raise CheckFailed("the record of 2 MiB is not returned")
        expect((await topic.produce(batch(b"small")))["error_code"], Error.NONE, "Produce after a large record")


@check("limits/text", _TOPIC, writes=True)
async def check_unicode_ids(target: Target) -> None:
    """Client ids and group ids may have any character, and come back unchanged.

    Applications use names in any language.
    """
    group = target.new_name("größe ☃ 𝄞")
    async with target.connection() as connection:
        version = min(4, target.version("DescribeGroups"))
        response = await target.request(connection, "DescribeGroups", version, groups=[group])
        group_ids = [group["group_id"] for group in response.body["groups"]]
        if group_ids != [group]:
            raise response.failure(f"the group id {group!r} is returned as {group_ids}")


async def _check_rejected(target: Target, name: str, description: str) -> None:
    async with target.connection() as connection:
        code = await create_topic(target, connection, name, 1, 1)
        expect(code, Error.INVALID_TOPIC_EXCEPTION, f"CreateTopics with {description}")
