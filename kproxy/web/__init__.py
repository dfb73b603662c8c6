"""The terminal views in a browser: textual-serve behind token-based access control."""
