"""Unite two releases of made-up messages."""

from typing import Any

import pytest

from dissectors.schemas.importer.definitions import Field, Message
from dissectors.schemas.importer.union import union

Versions = set[int]


def field(name: str, versions: Versions, kind: str = "int32", *inner: Field, **more: Any) -> Field:
    field: Field = {"name": name, "type": kind, "versions": frozenset(versions), "nullableVersions": frozenset(),
                   "taggedVersions": frozenset(), **more}  # fmt: skip
    return {**field, "fields": [*inner]} if inner else field


def tagged_field(name: str, versions: Versions, tag: int, **more: Any) -> Field:
    return field(name, versions, **{"taggedVersions": frozenset(versions), "tag": tag, **more})


def message(release: str, versions: Versions, *fields: Field, **more: Any) -> Message:
    return {"name": "CatRequest", "type": "request", "component": "kafka-clients", "apiKey": 3, "flexible": "none",
            "versions": frozenset(versions), "served": {release: f"{min(versions)}-{max(versions)}"},
            "fields": [*fields], **more}  # fmt: skip


def unite(older: Message, newer: Message) -> tuple[Message, list[str]]:
    united, notes = union({older["name"]: older}, {newer["name"]: newer})
    assert [*united] == [newer["name"]]
    return united[newer["name"]], notes


def field_names(message: Message, version: int) -> list[str]:
    return [field["name"] for field in message["fields"] if version in field["versions"]]


def test_union_has_the_versions_of_both_releases() -> None:
    old = message("3.9.1", {0, 1, 2}, field("Legs", {0, 1, 2}), field("Fur", {0, 1}))
    new = message("4.4.0", {2, 3}, field("Legs", {2, 3}), field("Tail", {3}))
    united, notes = unite(old, new)
    assert united["versions"] == {0, 1, 2, 3}
    assert united["served"] == {"3.9.1": "0-2", "4.4.0": "2-3"}
    assert [field_names(united, version) for version in range(4)] == [["Legs", "Fur"]] * 2 + [
        ["Legs"],
        ["Legs", "Tail"],
    ]
    assert notes == []


def test_message_that_only_one_release_has_is_kept() -> None:
    old, new = message("3.9.1", {0}), message("4.4.0", {0}, name="DogRequest", apiKey=4)
    assert union({"CatRequest": old}, {"DogRequest": new}) == ({"DogRequest": new, "CatRequest": old}, [])


def test_fields_of_the_older_release_keep_their_position() -> None:
    old = message("3.9.1", {0, 1}, field("A", {0}), field("B", {0, 1}), field("C", {0}), field("D", {0, 1}))
    new = message("4.4.0", {1, 2}, field("B", {1, 2}), field("New", {2}), field("D", {1, 2}))
    united, _ = unite(old, new)
    assert [field_names(united, version) for version in range(3)] == [
        ["A", "B", "C", "D"],
        ["B", "D"],
        ["B", "New", "D"],
    ]


def test_newer_release_defines_the_versions_that_both_have() -> None:
    old = message("3.9.1", {0, 1}, field("Legs", {0, 1}, nullableVersions=frozenset({0}), default=4))
    new = message("4.4.0", {1}, field("Legs", {1}, nullableVersions=frozenset({1}), default=3))
    united, notes = unite(old, new)
    assert united["fields"] == [field("Legs", {0, 1}, nullableVersions=frozenset({0, 1}), default=3)]
    assert notes == ["CatRequest v1 is encoded differently in 3.9.1 and in 4.4.0"]


def test_renamed_field_has_the_newer_name() -> None:
    old = message("3.9.1", {0, 1}, field("Id", {0, 1}), field("Feet", {0, 1}), field("Fur", {1}, "bool"))
    new = message("4.4.0", {1, 2}, field("Id", {1, 2}), field("Legs", {1, 2}), field("Coat", {1, 2}, "bool"))
    united, notes = unite(old, new)
    assert [field_names(united, version) for version in range(3)] == [["Id", "Legs"], *[["Id", "Legs", "Coat"]] * 2]
    assert notes == []


def test_new_field_before_a_renamed_one_stays_separate() -> None:
    old = message("3.9.1", {0, 1}, field("Feet", {0, 1}))
    new = message("4.4.0", {1, 2}, field("Age", {2}), field("Legs", {1, 2}))
    united, _ = unite(old, new)
    assert [field_names(united, version) for version in range(3)] == [["Legs"], ["Legs"], ["Age", "Legs"]]


def test_fields_with_disjoint_versions_stay_separate() -> None:
    old, new = message("3.9.1", {0}, field("Name", {0})), message("4.4.0", {1}, field("Id", {1}))
    united, _ = unite(old, new)
    assert [field_names(united, version) for version in range(2)] == [["Name"], ["Id"]]


def test_field_with_a_changed_type_becomes_two_fields() -> None:
    old = message("3.9.1", {0, 1}, field("Legs", {0, 1}, "int8"))
    new = message("4.4.0", {1}, field("Legs", {1}, "int32"))
    united, notes = unite(old, new)
    assert [(field["type"], field["versions"]) for field in united["fields"]] == [("int8", {0}), ("int32", {1})]
    assert notes == ["CatRequest v1 is encoded differently in 3.9.1 and in 4.4.0"]


def test_structs_are_united_and_may_be_renamed() -> None:
    old = message("3.9.1", {0, 1}, field("Cats", {0, 1}, "[]Cat", field("Fur", {0}), field("Legs", {0, 1})))
    new = message("4.4.0", {1, 2}, field("Cats", {1, 2}, "[]Feline", field("Legs", {1, 2}), field("Tail", {2})))
    united, notes = unite(old, new)
    [cats] = united["fields"]
    assert cats["type"] == "[]Feline"
    assert [field_names(cats, version) for version in range(3)] == [["Fur", "Legs"], ["Legs"], ["Legs", "Tail"]]
    assert notes == []


def test_fields_of_an_old_struct_are_limited_to_its_versions() -> None:
    old = message("3.9.1", {0, 1}, field("Cats", {0, 1}, "[]Cat", field("Fur", {0, 1}), field("Legs", {1})))
    new = message("4.4.0", {1})
    united, notes = unite(old, new)
    assert united["fields"] == [field("Cats", {0}, "[]Cat", field("Fur", {0}))]
    assert notes == ["CatRequest v1 is encoded differently in 3.9.1 and in 4.4.0"]


def test_renamed_message_keeps_its_older_names_as_aliases() -> None:
    old = message("3.9.1", {0}, name="FelineRequest")
    middle, new = message("4.0.0", {0}), message("4.4.0", {0}, name="CatsRequest")
    first_union, _ = unite(old, middle)
    second_union, _ = unite(first_union, new)
    assert second_union["aliases"] == {"3.9.1": "FelineRequest", "4.0.0": "CatRequest"}


def test_same_key_in_another_component_is_another_message() -> None:
    old = message("3.9.1", {0}, name="TopicRecord", type="metadata", component="kafka-metadata")
    new = message("4.4.0", {0}, name="SegmentRecord", type="metadata", component="kafka-storage")
    united, _ = union({"TopicRecord": old}, {"SegmentRecord": new})
    assert {*united} == {"TopicRecord", "SegmentRecord"}


def test_tag_unknown_to_one_release_is_compatible() -> None:
    old = message("3.9.1", {0}, tagged_field("A", {0}, 0), flexible="0+")
    new = message("4.4.0", {0}, tagged_field("A", {0}, 0), tagged_field("B", {0}, 1), flexible="0+")
    united, notes = unite(old, new)
    assert field_names(united, 0) == ["A", "B"]
    assert notes == []


def test_reused_tag_is_noted() -> None:
    old = message("3.9.1", {0}, tagged_field("A", {0}, 0), flexible="0+")
    new = message("4.4.0", {0}, tagged_field("B", {0}, 0, type="string"), flexible="0+")
    assert unite(old, new)[1] == ["CatRequest v0 is encoded differently in 3.9.1 and in 4.4.0"]


def test_field_added_to_an_existing_version_is_noted() -> None:
    old = message("3.9.1", {0}, field("Cats", {0}, "[]Cat", field("Legs", {0})))
    new = message("4.4.0", {0}, field("Cats", {0}, "[]Cat", field("Legs", {0}), field("Tail", {0})))
    united, notes = unite(old, new)
    assert field_names(united["fields"][0], 0) == ["Legs", "Tail"]
    assert notes == ["CatRequest v0 is encoded differently in 3.9.1 and in 4.4.0"]


def test_coordinator_keys_have_the_numbers_of_the_newer_release() -> None:
    old = message("3.9.1", {2}, field("Group", {2}), type="data", name="GroupMetadataKey")
    new = message("4.4.0", {0}, field("Group", {0}), type="coordinator-key", name="GroupMetadataKey", apiKey=2)
    united, notes = unite(old, new)
    assert united == {**new, "served": {"3.9.1": "2-2", "4.4.0": "0-0"}}
    assert notes == []


def test_deprecated_versions_are_kept_per_release() -> None:
    old = message("3.9.1", {0, 1}, deprecated={"3.9.1": "0"})
    united, _ = unite(old, message("4.4.0", {1}))
    assert united["deprecated"] == {"3.9.1": "0"}


def test_version_flexible_in_one_release_only_is_rejected() -> None:
    with pytest.raises(ValueError, match="CatRequest v1 is flexible in one release only"):
        unite(message("3.9.1", {1}, flexible="none"), message("4.4.0", {2}, flexible="1+"))
