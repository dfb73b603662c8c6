"""The web application: modules that a server serves as they are, or that `kproxy.html.assemble` joins into one page."""
