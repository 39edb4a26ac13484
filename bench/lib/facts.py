"""Facts of the program that a study depends on. Studies read them at run time instead of copying them."""

import operator
import re
import subprocess
import tempfile
import tomllib
from functools import reduce
from pathlib import Path

from lib.servers import PROGRAM, ROOT

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def constant(file: str, name: str, kind: str, folder: Path = ROOT / "crates") -> int:
    """Returns a constant of type `kind` from the Rust files named `file`.

    Exactly one file must define it.
    """
    texts = [path.read_text() for path in sorted(folder.glob(f"**/{file}"))]
    pattern = rf"\bconst {name}: {kind} = ([^;]+);"
    values = [value for text in texts for value in re.findall(pattern, text)]
    if len(values) != 1:
        raise LookupError(f"{len(values)} files named {file} define {name}: {kind}, expected 1")
    return number(values[0])


def number(expression: str) -> int:
    """Returns the value of an integer, or of integers with `<<` or `*` between them."""
    if re.fullmatch(r"[\d_]+( << [\d_]+)?|[\d_]+( \* [\d_]+)*", expression) is None:
        raise ValueError(f"{expression!r} is not an integer, a shift or a product")
    join = operator.lshift if "<<" in expression else operator.mul
    return reduce(join, map(int, re.split(r" << | \* ", expression)))


def default_of(section: str, key: str):
    """Returns the default of a key, as `tollgate check --print` prints it."""
    with tempfile.TemporaryDirectory(prefix="tollgate-facts-") as folder:
        Path(folder, "tollgate.toml").write_text('[[route]]\npath = "/"\nreply = { body = "" }\n')
        command = [str(PROGRAM), "check", "--print", folder]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return tomllib.loads(printed)[section][key]


def bytes_of(amount: str) -> int:
    """Returns the bytes of an amount such as `256MiB`."""
    count, unit = re.fullmatch(r"(\d+)([A-Za-z]+)", amount).groups()
    return int(count) * UNITS[unit]
