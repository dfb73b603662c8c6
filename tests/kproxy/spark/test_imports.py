"""The names that programs and notebooks import."""

from __future__ import annotations

import subprocess
import sys

import pytest

import kproxy.spark
from kproxy.spark.derived.clusters import clustered
from kproxy.spark.session import session


def test_what_a_notebook_needs_comes_from_one_package() -> None:
    made = {name: getattr(kproxy.spark, name) for name in kproxy.spark.__all__}
    assert (made["clustered"], made["open_session"]) == (clustered, session)
    assert "latency" in made["jobs"].names()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = kproxy.spark.nothing


def test_the_names_of_tables_need_no_pyspark() -> None:
    code = "import sys; from kproxy.spark import jobs; jobs.names(); sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
