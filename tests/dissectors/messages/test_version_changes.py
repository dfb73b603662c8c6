"""What each version of an API changes."""

from __future__ import annotations

import pytest

from dissectors import schemas
from dissectors.messages.version_changes import version_changes, version_notes
from dissectors.schemas.codes import ApiKey


@pytest.mark.parametrize(
    ("api", "version", "changes"),
    [
        (ApiKey.JOIN_GROUP, 0, []),
        (ApiKey.JOIN_GROUP, 3, []),
        (ApiKey.JOIN_GROUP, 5, ["request adds group_instance_id", "response adds members[].group_instance_id"]),
        (ApiKey.JOIN_GROUP, 7, ["response adds protocol_type", "response allows null for protocol_name"]),
        (ApiKey.HEARTBEAT, 4, ["flexible"]),
        (ApiKey.METADATA, 11, ["request removes include_cluster_authorized_operations",
                               "response removes cluster_authorized_operations"]),
        (ApiKey.FETCH, 4, ["request adds isolation_level",
                           "response adds responses[].partitions[].last_stable_offset, "
                           "responses[].partitions[].aborted_transactions[]"]),
        (999, 1, []),
    ],
)  # fmt: skip
def test_changes_are_derived_from_the_layouts(api: int, version: int, changes: list[str]) -> None:
    assert version_changes(api, version) == changes


def test_each_version_has_a_note() -> None:
    assert version_notes(ApiKey.JOIN_GROUP)[2:4] == [(3, "same layout as before"), (4, "same layout as before")]
    assert version_notes(ApiKey.JOIN_GROUP)[7] == (8, "request adds reason (KIP-800)")
    assert version_notes(999) == []
    assert all(len(version_notes(api.key)) == len(api.versions) - 1 for api in schemas.apis())
