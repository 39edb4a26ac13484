"""Opens the page in Chromium, which sends its events and a report."""

from pathlib import Path

import chromium

said = chromium.said(Path(__file__).resolve().parent)
assert said == {"recorded": 1}, said
