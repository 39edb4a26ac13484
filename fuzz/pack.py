#!/usr/bin/env python3
"""Packs and unpacks the corpus of the fuzz targets: `fuzz/pack.py {pack,unpack,count} [TARGET FOLDER]`.

An input with a name that describes it is a file: `corpus/TARGET/NAME.txt`. All other inputs of a target are
in one file, `corpus/TARGET.pack`:

    offset  bytes
    0       8      the text "TGPACK01"
    8       4      number of inputs, little endian, as are all numbers
    12      4 + n  the length of an input, and its bytes; once for each input
    end     4      CRC-32 (IEEE 802.3) of all bytes before it

Inputs are sorted by their bytes, and no input occurs twice. The same inputs therefore always give the same
file. `crates/tollgate-server/tests/fuzz/corpus.rs` reads these files in `cargo test`.
"""

import argparse
import hashlib
import struct
import sys
import zlib
from itertools import pairwise
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
MAGIC = b"TGPACK01"
NUMBER = struct.Struct("<I")


class DamagedPack(ValueError):
    """The file is not a pack, or its content is damaged."""


def packed(inputs: set[bytes]) -> bytes:
    """Returns a pack of these inputs."""
    parts = [MAGIC, NUMBER.pack(len(inputs))]
    for one in sorted(inputs):
        parts += [NUMBER.pack(len(one)), one]
    content = b"".join(parts)
    return content + NUMBER.pack(zlib.crc32(content))


def unpacked(pack: bytes) -> list[bytes]:
    """Returns the inputs of a pack, sorted."""
    content, checksum = pack[: -NUMBER.size], pack[-NUMBER.size :]
    if not content.startswith(MAGIC) or checksum != NUMBER.pack(zlib.crc32(content)):
        raise DamagedPack("the magic or the checksum is wrong")
    inputs, at = [], len(MAGIC) + NUMBER.size
    while at < len(content):
        (length,) = NUMBER.unpack_from(content, at)
        inputs.append(content[at + NUMBER.size : at + NUMBER.size + length])
        at += NUMBER.size + length
    (count,) = NUMBER.unpack_from(content, len(MAGIC))
    if at != len(content) or len(inputs) != count or any(one >= other for one, other in pairwise(inputs)):
        raise DamagedPack("the inputs are not sorted, not different, or not as many as the head says")
    return inputs


def contents(folder: Path) -> set[bytes]:
    """Returns the bytes of all files of a folder."""
    return {file.read_bytes() for file in folder.iterdir()}


def pack(target: str, folder: Path):
    """Replaces the pack of a target by the inputs of a folder that are not named seeds."""
    inputs = contents(folder) - contents(CORPUS / target)
    (CORPUS / f"{target}.pack").write_bytes(packed(inputs))
    print(f"{target}: {len(contents(CORPUS / target))} named, {len(inputs)} packed")


def unpack(target: str, folder: Path):
    """Writes each packed input of a target to a file. Its name is its SHA-1, as libFuzzer does."""
    folder.mkdir(parents=True, exist_ok=True)
    for one in unpacked((CORPUS / f"{target}.pack").read_bytes()):
        (folder / hashlib.sha1(one).hexdigest()).write_bytes(one)


def count():
    total = 0
    for file in sorted(CORPUS.glob("*.pack")):
        named, in_pack = len(contents(CORPUS / file.stem)), len(unpacked(file.read_bytes()))
        total += named + in_pack
        print(f"{file.stem}: {named} named, {in_pack} packed")
    print(f"all: {total}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in [
        ("pack", "replace the pack of a target by the inputs of a folder"),
        ("unpack", "write the packed inputs of a target to a folder"),
    ]:
        command = commands.add_parser(name, help=text)
        command.add_argument(
            "target", choices=sorted(folder.name for folder in CORPUS.iterdir() if folder.is_dir())
        )
        command.add_argument("folder", type=Path)
    commands.add_parser("count", help="print how many inputs each target has")
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "pack":
                pack(arguments.target, arguments.folder)
            case "unpack":
                unpack(arguments.target, arguments.folder)
            case "count":
                count()
    except DamagedPack as error:
        sys.exit(f"fuzz/pack.py: a pack is damaged: {error}")


if __name__ == "__main__":
    main()
