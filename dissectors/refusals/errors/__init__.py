"""The tables of errors, by subject; `by_api` has the entries of APIs for which an error means something else."""
