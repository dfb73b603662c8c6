"""Functions that several rules share."""
