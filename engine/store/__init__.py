"""The store of runs: what a run folder holds, how it is written and read, and users' SQL over it."""
