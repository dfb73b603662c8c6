"""The version of kproxy, which must equal the one in `pyproject.toml`."""

__version__ = "0.1.0"
