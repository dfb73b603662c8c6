"""The report has one line for each change of the data."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from dissectors.schemas.importer.data import SchemaData
from dissectors.schemas.importer.report import changes

Json = dict[str, Any]
PRESENT: Json = {
    "messages": {
        "RequestHeader": {"name": "RequestHeader", "type": "header", "component": "kafka-clients", "versions": "0-2",
                          "served": {"3.9.1": "0-2"}, "flexible": "2+", "fields": []},
        "CatRequest": {"name": "CatRequest", "type": "request", "apiKey": 3, "component": "kafka-clients",
                       "versions": "0-2", "served": {"3.9.1": "0-2"}, "flexible": "none", "fields": [
            {"name": "Cats", "type": "[]Cat", "versions": "0+", "fields": [
                {"name": "Legs", "type": "int32", "versions": "0+"},
                {"name": "Tail", "type": "string", "versions": "1+"},
            ]},
            {"name": "Zoo", "type": "string", "versions": "0+"},
        ]},
    },
    "apis": {3: {"key": 3, "name": "Cat", "flexible": None, "releases": {
        "3.9.1": {"min": 0, "max": 2, "stable": 2, "listeners": ["broker"]}}}},
    "errors": {5: {"code": 5, "name": "NO_CAT", "retriable": False, "invalid_metadata": False}},
    "enums": {"colour": {"0": "RED"}},
    "kips": {"Cat": {"1": [7]}},
}  # fmt: skip


def cat_fields(data: Json) -> list[Json]:
    fields: list[Json] = data["messages"]["CatRequest"]["fields"]
    return fields


def rename_message(data: Json) -> None:
    message = data["messages"].pop("CatRequest")
    data["messages"]["CatsRequest"] = {**message, "name": "CatsRequest", "aliases": {"3.9.1": "CatRequest"}}


def add_release(served: Json | None) -> Callable[[Json], None]:
    def edit(data: Json) -> None:
        data["messages"]["RequestHeader"]["served"]["4.4.0"] = "1-2"
        if served is not None:
            data["apis"][3]["releases"]["4.4.0"] = served

    return edit


DOG = {"type": "data", "component": "kafka-raft", "versions": "0", "fields": []}
SERVES = {"min": 0, "max": 2, "stable": 2, "listeners": ["broker"]}


@pytest.mark.parametrize(
    ("edit", "lines"),
    [
        (lambda data: None, []),
        (add_release(SERVES), ["~ releases: 3.9.1 -> 3.9.1, 4.4.0"]),
        (
            add_release({**SERVES, "min": 1, "max": 3}),
            ["~ releases: 3.9.1 -> 3.9.1, 4.4.0",
             "~ API 3 Cat: 0-2 in 3.9.1 (broker) -> 1-3 in 4.4.0, stable to 2 (broker)"],
        ),
        (
            add_release(None),
            ["~ releases: 3.9.1 -> 3.9.1, 4.4.0", "~ API 3 Cat: 0-2 in 3.9.1 (broker) -> not in 4.4.0"],
        ),
        (
            lambda data: data["apis"][3]["releases"]["3.9.1"].update(max=1, stable=1),
            ["~ API 3 Cat: 0-2 in 3.9.1 (broker) -> 0-1 in 3.9.1 (broker)"],
        ),
        (lambda data: data["apis"].update({20: {**data["apis"][3], "name": "Dog"}}), ["+ API 20 Dog"]),
        (lambda data: data["apis"].clear(), ["- API 3 Cat"]),
        (
            lambda data: data["apis"][3].update(flexible=2, headers={"2": [2, 0]}),
            ["~ API 3 Cat: flexible None -> 2", "~ API 3 Cat: headers nothing -> {'2': [2, 0]}"],
        ),
        (lambda data: data["messages"].update(Dog={**DOG, "name": "Dog"}), ["+ message Dog (data of kafka-raft, 0)"]),
        (lambda data: data["messages"].pop("CatRequest"), ["- message CatRequest"]),
        (
            rename_message,
            ["~ message CatsRequest: name CatRequest -> CatsRequest",
             "~ message CatsRequest: aliases nothing -> {'3.9.1': 'CatRequest'}"],
        ),
        (
            lambda data: data["messages"]["CatRequest"].update(versions="0-3"),
            ["~ message CatRequest: versions 0-2 -> 0-3"],
        ),
        (
            lambda data: cat_fields(data)[0]["fields"].append({"name": "Age", "type": "int8", "versions": "2+"}),
            ["+ CatRequest: Cats[].Age (int8, 2+)"],
        ),
        (lambda data: cat_fields(data)[0]["fields"].pop(0), ["- CatRequest: Cats[].Legs (int32, 0+)"]),
        (
            lambda data: cat_fields(data)[0]["fields"][0].update(name="Feet"),
            ["~ CatRequest: Cats[].Feet: name Legs -> Feet"],
        ),
        (
            lambda data: cat_fields(data)[0]["fields"][0].update(type="int64", default=None),
            ["~ CatRequest: Cats[].Legs: type int32 -> int64", "~ CatRequest: Cats[].Legs: default nothing -> None"],
        ),
        (lambda data: cat_fields(data).reverse(), ["~ CatRequest: order of fields Zoo, Cats"]),
        (
            lambda data: data["errors"].update({6: {**data["errors"][5], "name": "NO_DOG"}}),
            ["+ error 6 NO_DOG"],
        ),
        (lambda data: data["errors"][5].update(retriable=True), ["~ error 5 NO_CAT: retriable False -> True"]),
        (
            lambda data: data["enums"].update(colour={"1": "RED"}, size={"0": "BIG"}),
            ["+ colour 1 RED", "- colour 0 RED", "+ size 0 BIG"],
        ),
        (lambda data: data["enums"]["colour"].update({"0": "BLUE"}), ["~ colour 0 RED: name RED -> BLUE"]),
        (lambda data: data["kips"]["Cat"].update({"2": [8]}),
         ["~ KIPs of versions: Cat {'1': [7]} -> {'1': [7], '2': [8]}"]),
    ],
)  # fmt: skip
def test_each_change_is_one_line(edit: Callable[[Json], object], lines: list[str]) -> None:
    edited = copy.deepcopy(PRESENT)
    edit(edited)
    assert changes(SchemaData(**PRESENT), SchemaData(**edited)) == lines


def test_everything_is_reported_as_new_if_there_was_no_data() -> None:
    no_data = SchemaData({}, {}, {}, {}, {})
    assert changes(no_data, SchemaData(**PRESENT)) == [
        "~ releases: none -> 3.9.1",
        "+ API 3 Cat",
        "+ message RequestHeader (header of kafka-clients, 0-2)",
        "+ message CatRequest (request of kafka-clients, 0-2)",
        "+ error 5 NO_CAT",
        "+ colour 0 RED",
        "~ KIPs of versions: Cat nothing -> {'1': [7]}",
    ]
