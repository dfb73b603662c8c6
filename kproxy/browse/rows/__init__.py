"""Rows: exchanges indexed, filtered, sorted; their lines stay where they lie."""
