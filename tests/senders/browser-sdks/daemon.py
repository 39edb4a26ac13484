"""Opens a page with SDKs in Chromium. They send events until the browser is ended."""

import os
from pathlib import Path

import chromium

chromium.open_page(Path(__file__).resolve().parent, Path(os.environ["PACKAGES"])).wait()
