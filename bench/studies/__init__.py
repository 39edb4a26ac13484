"""The studies: one question each. `bench/study.py` runs one of them."""
