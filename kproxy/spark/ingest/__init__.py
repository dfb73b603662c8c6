"""From files to lines: traces, captures and tables as rows of one schema."""
