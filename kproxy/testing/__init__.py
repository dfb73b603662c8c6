"""kproxy for tests: a proxy and a built-in broker that inspect their traffic in this process. `kproxy` exports them."""
