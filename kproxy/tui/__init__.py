"""The terminal views: Textual widgets over a `kproxy.browse` session. They poll the session for changes."""
