"""Unit tests of the parsers and statistics: `python3 -m unittest discover -s bench`."""
