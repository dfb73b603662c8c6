"""Export: one exchange as text, or the visible rows as a trace."""
