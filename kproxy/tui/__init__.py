"""The terminal's views: Textual widgets over a `kproxy.browse` session. They pull; nothing is pushed at them."""
