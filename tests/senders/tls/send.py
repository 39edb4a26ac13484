"""Sends requests by ssl: each version of TLS, with and without a certificate, and resumed sessions."""

import os
import socket
import ssl
from pathlib import Path
from urllib.parse import urlsplit

FOLDER = Path(os.environ["TOLLGATE_FOLDER"])
URL = urlsplit(os.environ["TOLLGATE_URL"])


def context(version: ssl.TLSVersion, has_certificate: bool) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=FOLDER / "data/tls/local-ca.pem")
    made.minimum_version = made.maximum_version = version
    made.set_alpn_protocols(["h2", "http/1.1"])
    if has_certificate:
        made.load_cert_chain(FOLDER / "client.pem", FOLDER / "client.key")
    return made


def ask(made: ssl.SSLContext, path: str, session: ssl.SSLSession | None) -> ssl.SSLSession:
    """Sends a request, and checks its reply and its end. Returns the session, which can be resumed."""
    with (
        socket.create_connection((URL.hostname, URL.port)) as plain,
        made.wrap_socket(
            plain, server_hostname="localhost", session=session, suppress_ragged_eofs=False
        ) as peer,
    ):
        assert peer.selected_alpn_protocol() == "http/1.1", peer.selected_alpn_protocol()
        assert peer.session_reused == (session is not None), f"{path}: reused {peer.session_reused}"
        peer.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        reply = b""
        # An end without close_notify would be an error.
        while part := peer.recv(65536):
            reply += part
        assert reply.startswith(b"HTTP/1.1 200 OK\r\n") and reply.endswith(b"\r\n\r\nhello"), reply
        return peer.session


for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
    for name in ("certificate", "none"):
        made = context(version, name == "certificate")
        session = ask(made, f"/python/{name}", None)
        ask(made, f"/python/{name}", session)
