"""One entry of a nested array, written wrongly by independent code, is named with its indexes."""

from itertools import islice

import pytest

from tests.independent import one_entry


@pytest.mark.slow
def test_wrongly_written_entry_is_named() -> None:
    tally = one_entry.tally(islice(one_entry.cases(), 0, None, 13))
    count = tally.total
    assert count["cases"] > 100
    assert count["first"] >= 0.85 * count["cases"], f"{tally}\n{tally.missed[:10]}"
    assert count["wrong but sure"] <= 0.02 * count["cases"], f"{tally}\n{tally.missed[:10]}"
