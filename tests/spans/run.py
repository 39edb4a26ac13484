#!/usr/bin/env python3
"""Checks the spans that a server exports against the protocol buffers of OpenTelemetry: `make spans`."""

import base64
import http.server
import os
import pathlib
import queue
import re
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

# `make spans` installs these packages, and names their folder in PYTHONPATH.
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CONFIG = """
[server]
listen = ["127.0.0.1:0"]
[otlp]
url = "http://127.0.0.1:{port}/v1/traces"
[[route]]
path = "/users/{{id}}"
reply = {{ body = "hello" }}
[[route]]
path = "/failing"
reply = {{ status = 503 }}
"""
posts = queue.Queue()


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        posts.put(self.rfile.read(int(self.headers["content-length"])))
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def ask(address, target, fields):
    try:
        urllib.request.urlopen(
            urllib.request.Request(f"http://{address}{target}", headers=fields), timeout=60
        )
    except urllib.error.HTTPError as error:
        assert error.code == 503, error


def exported(count):
    """Parses posts until there is this number of spans. A field that the definition lacks is an error."""
    spans = []
    while len(spans) < count:
        text = posts.get(timeout=60)
        # The JSON of OTLP has ids in hexadecimal. The JSON of protocol buffers has base64.
        text = re.sub(rb'"(traceId|spanId|parentSpanId)":"([0-9a-f]+)"', base64_id, text)
        for resource in Parse(text, ExportTraceServiceRequest()).resource_spans:
            assert resource.resource.attributes[0].key == "service.name"
            spans += [span for scope in resource.scope_spans for span in scope.spans]
    return spans


def base64_id(found):
    name, digits = found[1], bytes.fromhex(found[2].decode())
    assert len(digits) == (16 if name == b"traceId" else 8), found
    return b'"%s":"%s"' % (name, base64.b64encode(digits))


def check(spans):
    by_name = {span.name: span for span in spans}
    child, failing = by_name["GET /users/{id}"], by_name["GET /failing"]
    assert (child.trace_id.hex(), child.parent_span_id.hex()) == (TRACE, PARENT)
    assert child.flags == 0x301 and failing.flags == 0x101 and failing.parent_span_id == b""
    assert failing.status.code == Status.STATUS_CODE_ERROR and child.status.code == Status.STATUS_CODE_UNSET
    for span in spans:
        values = {attribute.key: attribute.value for attribute in span.attributes}
        assert span.kind == Span.SPAN_KIND_SERVER
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
        assert values["http.response.status_code"].int_value in (200, 503)
        assert values["url.path"].string_value in ("/users/7", "/failing")


def main():
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    binary = os.environ.get("TOLLGATE", ROOT / "target/debug/tollgate")
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "tollgate.toml")
        config.write_text(CONFIG.format(port=collector.server_port))
        server = subprocess.Popen(
            [binary, "serve", "--config", config], cwd=folder, stdout=subprocess.PIPE, text=True
        )
        try:
            line = next(line for line in server.stdout if re.search(r"127\.0\.0\.1:\d+", line))
            address = re.search(r"127\.0\.0\.1:\d+", line)[0]
            ask(address, "/users/7?a=1", {"traceparent": f"00-{TRACE}-{PARENT}-01"})
            ask(address, "/failing", {})
            check(exported(2))
        finally:
            server.terminate()
            server.wait()
    print("2 spans have the form of ExportTraceServiceRequest")


if __name__ == "__main__":
    main()
