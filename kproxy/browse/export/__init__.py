"""Export: an exchange as text, the shown rows as a trace."""
