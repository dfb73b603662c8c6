"""One file per view: its columns, the text below the table, and what enter does."""
