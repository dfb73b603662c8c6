"""The terminal's views in a browser: textual-serve behind a door with a key."""
