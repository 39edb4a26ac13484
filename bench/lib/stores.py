"""An S3 server for one run: versitygw over a folder, and uploads to it by curl."""

import hashlib
import os
import secrets
import socket
import subprocess
import time
from pathlib import Path

from lib.servers import LOAD_CORE, ROOT

#: Built by `make versitygw`.
PROGRAM = ROOT / "target/tools/versitygw-1.8.0/bin/versitygw"
ACCESS_KEY, SECRET_KEY, BUCKET = "tollgate-bench", "sesame-sesame", "logs"
#: The environment of a program that uses the server.
ENVIRONMENT = {**os.environ, "AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
START_TIMEOUT_S = 20


class Gateway:
    """A running server with an empty bucket, on the core of the load unless `core` names another one."""

    def __init__(self, folder: Path, core: str = LOAD_CORE):
        for name in (f"root/{BUCKET}", "sidecar"):
            (folder / name).mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        keys = ["--access", ACCESS_KEY, "--secret", SECRET_KEY, "--keep-alive", "--quiet"]
        place = [
            "posix",
            *([] if has_attributes(folder) else ["--sidecar", f"{folder}/sidecar"]),
            f"{folder}/root",
        ]
        command = ["taskset", "-c", core, str(PROGRAM), *keys, "--port", f"127.0.0.1:{self.port}", *place]
        with (folder / "output.txt").open("wb") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        self.folder = folder
        self.wait_until_it_listens()

    def wait_until_it_listens(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    output = (self.folder / "output.txt").read_text()[-2000:]
                    raise RuntimeError(f"versitygw does not start: {output}") from None
            time.sleep(0.02)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def path(self, name: str) -> Path:
        """Returns the folder of a prefix on the disk of the server."""
        return self.folder / "root" / BUCKET / name

    def upload(self, files: list[Path], prefix: str, is_signed: bool = False):
        """Uploads files one after another over one connection, by one process of curl.

        `is_signed`: the server verifies the SHA-256 of each file, as it does for `tollgate ship`. curl signs
        no file that it uploads, unless the digest or its absence is a header.
        """
        lines = []
        for number, file in enumerate(files):
            digest = sha256(file) if is_signed else "UNSIGNED-PAYLOAD"
            lines += ["next"] if lines else []
            lines += [f'user = "{ACCESS_KEY}:{SECRET_KEY}"', 'aws-sigv4 = "aws:amz:us-east-1:s3"']
            lines += [f'header = "x-amz-content-sha256: {digest}"', "fail", "silent", "show-error"]
            lines += [f'upload-file = "{file}"', f'url = "{self.endpoint}/{BUCKET}/{prefix}/{number}"']
        command = ["curl", "--config", "-"]
        subprocess.run(command, input="\n".join(lines), text=True, check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        self.process.terminate()
        self.process.wait(60)


def sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def has_attributes(folder: Path) -> bool:
    """Returns whether the files of a folder can have user attributes. The server stores metadata in them."""
    try:
        os.setxattr(folder, "user.tollgate", secrets.token_bytes(1))
    except OSError:
        return False
    return True
