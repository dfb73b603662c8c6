"""The tables of errors by subject; `by_api` has entries for APIs in which an error means something else."""
