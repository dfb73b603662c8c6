"""Remembers Java's classes and static methods, which PySpark looks up again for each column of each table.

A lookup is a call to Java, which searches all jars if the name has no package.
"""

from __future__ import annotations

from typing import Any, Final

from pyspark.sql import SparkSession

#: The names under which PySpark looks up classes while it builds columns.
_CLASSES: Final = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.expressions.Window",
    "PythonSQLUtils",
    "PythonUtils",
)


class _JavaClass:
    """A Java class, whose members are looked up once."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._java_class, name)
        setattr(self, name, member)  # from now on, Python finds it without this method
        return member


def remember_names(spark: SparkSession) -> None:
    """Make a classic session look up each class and method for columns only once; they work as before."""
    jvm: Any = spark._jvm
    for name in _CLASSES:
        value = getattr(jvm, name)
        if not isinstance(value, _JavaClass):
            setattr(jvm, name, _JavaClass(value))
