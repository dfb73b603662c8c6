"""Family C: requests, their responses, and how connections begin and end."""
