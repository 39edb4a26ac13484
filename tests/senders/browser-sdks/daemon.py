"""Opens a page with SDKs in Chromium. They send events until the browser is ended."""

import os
import subprocess
from pathlib import Path

import chromium

HERE = Path(__file__).resolve().parent
PACKAGES = Path(os.environ["PACKAGES"]) / "node_modules"

# The package has the program for the processor of this machine.
esbuild = next(PACKAGES.glob("@esbuild/*/bin/esbuild"))
bundle = [esbuild, HERE / "page.js", "--bundle", "--outfile=bundle.js", "--log-level=error"]
subprocess.run(bundle, env=os.environ | {"NODE_PATH": PACKAGES}, check=True)
chromium.open_page(HERE, Path.cwd()).wait()
