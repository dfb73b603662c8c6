"""The page that ``kproxy probe --html`` writes."""
