"""Rows of release lines, from the output of the Java program to the data file and the report."""

from typing import Any

import pytest

from dissectors.schemas.importer.lines import changes, content, listener, merge_rows, numbers, parse, row


def release_facts(**more: Any) -> dict[str, Any]:
    return {
        "apis": {"18": [0, 4], "0": [0, 13]},
        "served": {"0": [3, 13]},
        "features": {"x.version": [0, 2, 1]},
        **more,
    }


@pytest.mark.parametrize(
    ("release", "line"), [("0.10.2.1", "0.10.2"), ("0.11.0.0", "0.11.0"), ("1.0.2", "1.0"), ("4.4.0", "4.4")]
)
def test_row_names_the_line_of_its_release(release: str, line: str) -> None:
    line_row = row(release, release_facts())
    assert (line_row["line"], line_row["release"], [*line_row["apis"]]) == (line, release, ["0", "18"])


def test_clients_use_zookeeper_brokers_until_3_2() -> None:
    assert [listener(release) for release in ("0.10.0.1", "3.2.3", "3.3.0", "4.0.0")] == [
        *["zk_broker"] * 2,
        *["broker"] * 2,
    ]


def test_rows_are_ordered_and_replaced_by_line() -> None:
    present = [row("2.8.1", release_facts()), row("4.4.0", release_facts())]
    rows = merge_rows(
        present, [row("0.11.0.3", release_facts()), row("2.8.2", release_facts()), row("2.10.0", release_facts())]
    )
    assert [line_row["release"] for line_row in rows] == ["0.11.0.3", "2.8.2", "2.10.0", "4.4.0"]
    assert parse(content(rows)) == rows
    assert content(rows).count(b"\n") == 2 + len(rows)
    assert parse(b"") == []
    assert numbers("2.10.0") == (2, 10, 0)


def test_report_lists_the_changes_of_a_line() -> None:
    old_row = row("3.3.0", release_facts())
    apis = {"18": [0, 5], "0": [0, 13], "19": [2, 7]}
    new_row = {
        **row("3.3.1", release_facts(apis=apis, served={}, features={"x.version": [0, 2, 2]})),
        "listener": "zk_broker",
    }
    assert [*changes([old_row], [old_row, row("4.4.0", release_facts())])] == [
        "+ line 4.4 as of 4.4.0 (2 APIs, broker)"
    ]
    assert [*changes([old_row], [new_row])] == [
        "~ line 3.3: release 3.3.0 -> 3.3.1",
        "~ line 3.3: listener broker -> zk_broker",
        "~ line 3.3: apis 18 [0, 4] -> [0, 5]",
        "~ line 3.3: apis 19 none -> [2, 7]",
        "~ line 3.3: served 0 [3, 13] -> none",
        "~ line 3.3: features x.version [0, 2, 1] -> [0, 2, 2]",
    ]
