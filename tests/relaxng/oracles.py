#!/usr/bin/env python3
"""Compares verdicts on random schemas with Jing and xmllint: `tests/relaxng/oracles.py [--count N]`.

The example `cases` of the crate tollgate-relaxng writes schemas and documents. Jing judges schemas of both
syntaxes and all documents in one process. xmllint judges the XML syntax. It has known faults, so the program
counts its differences and does not fail because of them. Needs Java, and Debian's jing and libxml2-utils.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
JARS = ":".join(f"/usr/share/java/{name}.jar" for name in ("jing", "xercesImpl"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, default=2000, help="the number of schemas")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder)
        ours = verdicts(["target/release/examples/cases", cases, str(arguments.first), str(arguments.count)])
        jing = verdicts(["java", "-Xmx512m", "-cp", JARS, "tests/relaxng/Jing.java", cases])
        different = sorted(name for name in ours.keys() | jing.keys() if ours.get(name) != jing.get(name))
        report("jing", len(jing), different, ours, jing)
        lint = xmllint(cases, ours)
        report("xmllint", len(lint), sorted(name for name in lint if lint[name] != ours[name]), ours, lint)
        for name in different[:3]:
            schema = cases / f"{name.split('.')[0].split('-')[0]}.rnc"
            print(schema.read_text(), (cases / name).read_text(), sep="\n")
    sys.exit(1 if different or not jing else 0)


def verdicts(command):
    """Returns the verdict for each file, from lines with a name and a verdict."""
    output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(line.split(" ") for line in output.splitlines())


def xmllint(cases, ours):
    """Returns the verdicts of xmllint on the documents of correct schemas."""
    judged = {}
    for schema in sorted(cases.glob("*.rng")):
        if ours[schema.name] != "true":
            continue
        documents = sorted(cases.glob(f"{schema.stem}-*.xml"))
        command = ["xmllint", "--noout", "--relaxng", schema, *documents]
        lines = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False).stderr.splitlines()
        for document in documents:
            if f"{document} validates" in lines:
                judged[document.name] = "true"
            elif f"{document} fails to validate" in lines:
                judged[document.name] = "false"
    return judged


def report(name, count, different, ours, theirs):
    print(f"{name}: {count} verdicts, {len(different)} differ")
    for file in different[:10]:
        print(f"  {file}: ours {ours.get(file)}, {name} {theirs.get(file)}")


if __name__ == "__main__":
    main()
