"""Opens pages of another site in Chromium."""

import http.server
import json
import mimetypes
import os
import subprocess
import threading
from functools import partial
from pathlib import Path

URL = os.environ["TOLLGATE_URL"]
#: Seconds until the page reports. The first start of a browser reads many bytes from the disk.
PATIENCE = 100
#: The ending of modules, which is not in the lists of all systems.
mimetypes.add_type("text/javascript", ".mjs")


class Site(http.server.BaseHTTPRequestHandler):
    """Serves the files of folders, with the URL of the server in their texts. A page reports by a POST."""

    said: dict = {}
    is_said = threading.Event()

    def __init__(self, folders: list[Path], *arguments):
        self.folders = folders
        super().__init__(*arguments)

    def do_GET(self):
        paths = [folder / self.path.lstrip("/") for folder in self.folders]
        path = next((path for path in paths if path.is_file()), None)
        if path is None:
            self.send_error(404)
            return
        text = path.read_bytes().replace(b"http://127.0.0.1:8080", URL.encode())
        self.send_response(200)
        self.send_header("Content-Type", mimetypes.guess_type(path.name)[0])
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Security-Policy", f"img-src 'none'; report-uri {URL}/csp")
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        self.said.update(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()
        self.is_said.set()

    def log_message(self, *_):
        pass


def open_page(*folders: Path) -> subprocess.Popen:
    """Opens page.html of the folders, and returns the browser."""
    site = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Site, folders))
    threading.Thread(target=site.serve_forever, daemon=True).start()
    # The browser sends many requests that no page caused. It may connect only to this machine.
    rules = "MAP elsewhere.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    # Root cannot use the sandbox. Without a port for debugging, a browser without a window ends at once.
    options = ["--headless", "--no-sandbox", "--remote-debugging-port=0", "--disable-gpu", "--no-first-run"]
    options += ["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"]
    options += ["--disable-sync", f"--host-resolver-rules={rules}", f"--user-data-dir={os.getcwd()}/profile"]
    page = f"http://elsewhere.test:{site.server_address[1]}/page.html"
    command = ["chromium", *options, page]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def said(*folders: Path) -> dict:
    """Opens page.html of the folders, and returns what the page reports."""
    browser = open_page(*folders)
    try:
        assert Site.is_said.wait(PATIENCE), "the page reported nothing"
    finally:
        browser.terminate()
        browser.wait(PATIENCE)
    return Site.said
