"""The versions that releases serve, compared with the release lines and the removed versions."""

from __future__ import annotations

import pytest

from dissectors import schemas
from dissectors.schemas import lines, removed_versions
from dissectors.schemas.release_versions import first_lines_without, served


def test_newest_release_refuses_removed_versions() -> None:
    newest = served(removed_versions.newest_release())
    for key, lowest in removed_versions.lowest_served().items():
        assert newest.get(key, (None, None))[0] == lowest
    for (key, version), line in first_lines_without().items():
        assert removed_versions.is_removed(key, version), (key, version)
        assert not removed_versions.advertises(served(line), key, version)


@pytest.mark.parametrize("name", lines.lines())
def test_release_line_serves_the_client_apis_of_its_brokers(name: str) -> None:
    line = lines.line(name)
    broker_apis = {
        "LeaderAndIsr",
        "StopReplica",
        "UpdateMetadata",
        "ControlledShutdown",
        "AlterPartition",
        "AllocateProducerIds",
    }
    for key, versions in line.served.items():
        api = schemas.api(key)
        assert api is not None
        if api.name not in broker_apis:
            assert served(name)[key] == versions


def test_versions_removed_by_kip_896_are_refused() -> None:
    assert first_lines_without()[1, 2] == "4.0"  # Fetch
    assert first_lines_without()[6, 0] == "4.0"  # UpdateMetadata
    assert (1, 4) not in first_lines_without()
    assert (11, 0) not in first_lines_without()  # JoinGroup, for librdkafka
    assert (
        38,
        1,
    ) not in first_lines_without()  # CreateDelegationToken, which the first releases with only KRaft lacked


def test_release_between_two_imported_ones_has_its_apis() -> None:
    assert served("2.8")[4] == served("3.9.1")[4]  # LeaderAndIsr
    assert 4 not in served("4.0")
    assert 71 in served("3.9")  # GetTelemetrySubscriptions, which needs a plug-in
    assert 68 not in served("3.0")  # ConsumerGroupHeartbeat


def test_unknown_release_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"no Kafka release '9\.9' is known"):
        served("9.9")
