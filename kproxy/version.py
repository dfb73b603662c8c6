"""The version of kproxy; `pyproject.toml` has the same."""

__version__ = "0.1.0"
