#!/usr/bin/env python3
"""Checks the deployment files with the programs that read them: `tests/packages/deployment.py --binary PATH`.

The YAML of compose and Kubernetes is parsed, and the server checks the configurations in it. The server of
Kubernetes runs here without a cluster and without its database: its probes get their answers, also during the
drain. nginx, HAProxy and Caddy check the blocks of docs/how-to/run-behind-a-proxy.md.
"""

import argparse
import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import yaml
from machine import ROOT, eventually, run

from run import expect, step

PAGE = ROOT / "docs/how-to/run-behind-a-proxy.md"
SECRETS = {"PASSWORD": "secret", "ADMIN_TOKEN": "a-token-of-32-characters-or-more-", "DATABASE_URL": ""}
ANSWERS = {"/healthz": 200, "/readyz": 200, "/status": 401}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def status_of(url: str) -> int | None:
    """Returns the status code of a GET, or nothing if there is no reply."""
    try:
        with urllib.request.urlopen(url, timeout=10) as reply:
            return reply.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def parse_compose() -> None:
    services = yaml.safe_load((ROOT / "dist/compose/compose.yaml").read_text())["services"]
    expect(set(services) == {"tollgate", "postgres"}, f"compose has the services {set(services)}")


def check_compose(binary: Path, folder: Path) -> None:
    parse_compose()
    (folder / "routes").mkdir()
    (folder / "routes/score.luau").write_text((ROOT / "examples/score/routes/score.luau").read_text())
    text = (ROOT / "dist/compose/tollgate.toml").read_text()
    (folder / "tollgate.toml").write_text(text.replace("/var/lib/tollgate", str(folder)))
    done = run(binary, "check", folder / "tollgate.toml", env=os.environ | SECRETS)
    # The database is away, which is no fault of the configuration.
    expect(done.returncode == 0, f"tollgate check of compose: {done.stdout}{done.stderr}")
    step("compose: YAML, tollgate check")


def kubernetes() -> dict[str, dict]:
    documents = list(yaml.safe_load_all((ROOT / "dist/kubernetes/tollgate.yaml").read_text()))
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in documents}


def check_references(found: dict[str, dict]) -> dict:
    """Checks the names by which the objects refer to each other, and returns the container."""
    pods = found["StatefulSet/tollgate"]["spec"]
    template = pods["template"]["spec"]
    container = template["containers"][0]
    ports = {port["name"] for port in container["ports"]}
    volumes = {each["name"] for each in template["volumes"]}
    volumes |= {each["metadata"]["name"] for each in pods["volumeClaimTemplates"]}
    expect({each["name"] for each in container["volumeMounts"]} == volumes, "mounts and volumes differ")
    expect(f"Service/{pods['serviceName']}" in found, "the service of the StatefulSet is missing")
    labels = pods["template"]["metadata"]["labels"]
    for name in ("Service/tollgate", "Service/tollgate-pods"):
        expect(found[name]["spec"]["selector"] == labels, f"{name} selects no pods")
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        get = container[probe]["httpGet"]
        expect(get["port"] in ports and ANSWERS.get(get["path"]) == 200, f"{probe} asks {get}")
    return container


@contextlib.contextmanager
def server_of_kubernetes(binary: Path, folder: Path, text: str):
    """Runs the server with the configuration of the ConfigMap, below `folder` and on free ports."""
    ports = {"8080": free_port(), "9080": free_port()}
    for port, free in ports.items():
        text = text.replace(f'0.0.0.0:{port}"', f'127.0.0.1:{free}"')
    path = folder / "tollgate.toml"
    path.write_text(text.replace("/var/lib/tollgate", str(folder)))
    database = {"DATABASE_URL": f"postgres://tollgate:secret@127.0.0.1:{free_port()}/tollgate"}
    with (folder / "server.log").open("w+") as log:
        server = subprocess.Popen(
            [binary, "serve", path], env=os.environ | SECRETS | database, stdout=log, stderr=log
        )
        try:
            yield server, *(f"http://127.0.0.1:{free}" for free in ports.values())
        finally:
            server.kill()
            server.wait()


def check_kubernetes(binary: Path, folder: Path) -> None:
    found = kubernetes()
    check_references(found)
    text = found["ConfigMap/tollgate"]["data"]["tollgate.toml"]
    with server_of_kubernetes(binary, folder, text) as (server, web, admin):
        eventually("the startup probe", lambda: status_of(f"{admin}/healthz") == 200)
        for path, status in ANSWERS.items():
            eventually(
                f"{status} of {path}", lambda path=path, status=status: status_of(admin + path) == status
            )
        send = urllib.request.Request(f"{web}/collect", b'[{"kind":"click"}]')
        expect(urllib.request.urlopen(send).status == 200, "the event was refused")
        server.send_signal(signal.SIGTERM)
        eventually("503 of /readyz", lambda: status_of(f"{admin}/readyz") == 503)
        # The endpoints still lead requests to this pod.
        expect(urllib.request.urlopen(send).status == 200, "an event during drain_delay was refused")
        # A second signal ends the wait of drain_delay, and the process.
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=60)
    step("kubernetes: YAML, names, probes, drain")


def block(heading: str) -> str:
    """Returns the last indented block of a section."""
    section = PAGE.read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"-->\n\n((?: {4}.*\n|\n)+)", section)
    fitting = [each for each in blocks if "server" in each or "reverse_proxy" in each]
    return max(fitting, key=len).replace("\n    ", "\n").removeprefix("    ")


def check_proxies(folder: Path) -> None:
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=example.org",
        "-keyout", key, "-out", certificate, check=True)  # fmt: skip
    (folder / "site.pem").write_text(certificate.read_text() + key.read_text())
    paths = {
        "/etc/ssl/example.org.pem": certificate,
        "/etc/ssl/example.org.key": key,
        "/etc/ssl/site.pem": folder / "site.pem",
    }

    def write(name: str, text: str) -> Path:
        for path, own in paths.items():
            text = text.replace(path, str(own))
        (folder / name).write_text(text)
        return folder / name

    http = f"pid {folder}/pid;\nevents {{}}\nhttp {{\naccess_log off;\n{block('nginx')}\n}}\n"
    commands = {
        "nginx": ["nginx", "-t", "-c", write("nginx.conf", http)],
        "HAProxy": ["haproxy", "-c", "-f", write("haproxy.cfg", block("HAProxy"))],
        "Caddy": [
            "caddy",
            "validate",
            "--adapter",
            "caddyfile",
            "--config",
            write("Caddyfile", block("Caddy")),
        ],
    }
    environment = os.environ | {"HOME": str(folder), "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    for name, command in commands.items():
        done = run(*command, env=environment)
        expect(done.returncode == 0, f"{name}: {done.stdout}{done.stderr}")
        step(f"{name} takes its block of run-behind-a-proxy.md")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/tollgate")
    binary = parser.parse_args().binary.resolve()
    for check in (check_compose, check_kubernetes):
        with tempfile.TemporaryDirectory() as folder:
            check(binary, Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        check_proxies(Path(folder))


if __name__ == "__main__":
    main()
