"""The cases: the same work for several servers. `bench/run.py` runs them and writes the report."""
