"""The compared servers of files, the folder that all of them serve, and a bare loop that sends files."""

import random
from pathlib import Path

from lib.servers import H2o, Lighttpd, Nginx, Server, Tollgate, Yaws, built

#: Sizes by the names of the files.
SIZES = {
    "1 KiB": 1 << 10,
    "4 KiB": 4 << 10,
    "16 KiB": 16 << 10,
    "32 KiB": 32 << 10,
    "64 KiB": 64 << 10,
    "256 KiB": 256 << 10,
    "1 MiB": 1 << 20,
}


def path_of(size: str) -> str:
    return f"/{size.replace(' ', '')}.bin"


def make_site(folder: Path, cold: int, cold_bytes: int):
    """Makes a file of each size, and `cold` further files for requests that read from the disk."""
    noise = random.Random(1)
    (folder / "fixed").write_text("hello, world\n")
    for size, length in SIZES.items():
        (folder / path_of(size)[1:]).write_bytes(noise.randbytes(length))
    (folder / "cold").mkdir()
    for number in range(cold):
        (folder / f"cold/{number}.bin").write_bytes(noise.randbytes(cold_bytes))


class Site(Server):
    """A server of files. `marks` has the texts that replace the marks in its configuration."""

    marks: dict[str, str] = {}
    configuration = ("", "")
    site: Path

    def substitutions(self):
        return super().substitutions() | {"@SITE@": str(self.site)} | self.marks

    def prepare(self):
        self.files = dict([self.configuration])
        Server.prepare(self)


class TollgateSite(Site, Tollgate):
    configuration = ("site-tollgate.toml", "tollgate.toml")
    marks = {"@DEFERRED@": ""}


class NginxSite(Site, Nginx):
    configuration = ("site-nginx.conf", "nginx.conf")
    marks = {"@DEFERRED@": ""}
    packages = ("nginx-light",)


class LighttpdSite(Site, Lighttpd):
    configuration = ("site-lighttpd.conf", "lighttpd.conf")
    packages = ("lighttpd",)


class H2oSite(Site, H2o):
    configuration = ("site-h2o.conf", "h2o.conf")


class YawsSite(Site, Yaws):
    configuration = ("site-yaws.conf", "yaws.conf")


def variant(base: type[Site], name: str, **marks: str) -> type[Site]:
    return type(
        name.replace(", ", "_").replace(" ", "_"),
        (base,),
        {"name": name, "marks": base.marks | {f"@{mark.upper()}@": value for mark, value in marks.items()}},
    )


class FileLoop(Server):
    """A bare loop that sends files in turns, all of one length."""

    port = 8216
    way: str
    idle: str
    contents: list[Path]

    def command(self):
        return [str(built("files")), str(self.port), self.way, self.idle, *map(str, self.contents)]


def loop_of(way: str, contents: list[Path], idle: str = "asleep") -> type[FileLoop]:
    return type(
        f"loop_{way}_{idle}",
        (FileLoop,),
        {"name": f"bare loop, {way}, {idle}", "way": way, "idle": idle, "contents": contents},
    )


OURS = variant(TollgateSite, "tollgate", sendfile="true")
OURS_WRITING = variant(TollgateSite, "tollgate, sendfile off", sendfile="false")
NGINX = variant(NginxSite, "nginx", sendfile="on", nopush="on")
#: Servers that accept a connection only when its request has arrived. h2o always does so, and lighttpd and
#: Yaws never do.
OURS_DEFERRED = variant(TollgateSite, "tollgate, deferred", sendfile="true", deferred=", deferred = true")
NGINX_DEFERRED = variant(NginxSite, "nginx, deferred", sendfile="on", nopush="off", deferred=" deferred")
OURS_IN_EACH_WAY = [OURS, OURS_WRITING, OURS_DEFERRED]
PEERS = [
    NGINX,
    variant(NginxSite, "nginx, tcp_nopush off", sendfile="on", nopush="off"),
    NGINX_DEFERRED,
    variant(NginxSite, "nginx, sendfile off", sendfile="off", nopush="off"),
    variant(LighttpdSite, "lighttpd", backend="sendfile"),
    variant(LighttpdSite, "lighttpd, writev", backend="writev"),
    variant(H2oSite, "h2o"),
    # With `erlang`, Yaws 2.1.1 of Debian 12 sends heads without content, because yaws_sendfile.erl fails with
    # {badmatch,65536}.
    variant(YawsSite, "Yaws, sendfile off", sendfile="disable"),
]
SERVERS = [*OURS_IN_EACH_WAY, *PEERS]
