"""Programs and notebooks can import the names that they need."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

import kproxy.spark
from kproxy.errors import UserError
from kproxy.spark.derived.clusters import clustered
from kproxy.spark.session import session


def test_package_resolves_exports_and_rejects_unknown_names() -> None:
    exports = {name: getattr(kproxy.spark, name) for name in kproxy.spark.__all__}
    assert (exports["clustered"], exports["open_session"]) == (clustered, session)
    assert "latency" in exports["jobs"].names()
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = kproxy.spark.nothing


def test_job_names_are_available_without_pyspark() -> None:
    code = "import sys; from kproxy.spark import jobs; jobs.names(); sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_session_without_spark_is_embedded_or_remote(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr("kproxy.spark.session.find_spec", lambda name: None if name == "py4j" else sys)
    engine = SimpleNamespace(connect=lambda _: "embedded")
    monkeypatch.setattr("kproxy.spark.session.EmbeddedEngine", lambda _: engine)
    assert session() == "embedded"
    with pytest.raises(UserError, match=r"no Spark Connect server at 127\.0\.0\.1:1"):
        session("sc://127.0.0.1:1")
    monkeypatch.setenv("SPARK_REMOTE", "sc://127.0.0.1:1")
    with pytest.raises(UserError, match="no Spark Connect server"):
        session()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: "current")
    assert session() == session(engine="embedded") == "current"
