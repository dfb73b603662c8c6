"""From files to lines: traces, captures and tables at any path, as rows of one schema."""
