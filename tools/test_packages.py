"""Tests of the files of a release that need no build."""

import os
import tarfile
import tempfile
import unittest
from pathlib import Path

from make_dist import HERE, targets_of_images
from packages import zig
from packages.inventory import crates, known_packages, vendored
from packages.release import Release, write_archive


def release(binary: Path) -> Release:
    return Release("1.2.3", "x86_64-unknown-linux-gnu", binary, binary, 1_700_000_000, "commit")


def tree(folder: Path, names: list[str], seconds: int) -> Path:
    """Makes files with these names in this order, with a date of their own."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(0o755 if name.startswith("bin") else 0o644)
        os.utime(path, (seconds, seconds))
    return folder


class Archives(unittest.TestCase):
    def test_an_archive_depends_on_neither_dates_nor_the_order_of_creation(self):
        names = ["bin/tollgate", "share/b", "share/a"]
        archives = []
        for order, seconds in ((names, 1), (names[::-1], 2_000_000_000)):
            with tempfile.TemporaryDirectory() as folder:
                made = tree(Path(folder, "tree"), order, seconds)
                path = write_archive(release(made / "bin/tollgate"), made, Path(folder))
                archives.append(path.read_bytes())
                with tarfile.open(path) as archive:
                    found = archive.getmembers()
        self.assertEqual(archives[0], archives[1])
        self.assertEqual({(each.uid, each.gid, each.mtime) for each in found}, {(0, 0, 1_700_000_000)})
        top = "tollgate-1.2.3-x86_64-unknown-linux-gnu"
        modes = {each.name: each.mode for each in found if each.isfile()}
        expected = {f"{top}/bin/tollgate": 0o755, f"{top}/share/a": 0o644, f"{top}/share/b": 0o644}
        self.assertEqual(modes, expected)
        self.assertEqual([each.name for each in found], sorted(each.name for each in found))
        date_of_gzip = archives[0][4:8]
        self.assertEqual(date_of_gzip, bytes(4))


class Inventory(unittest.TestCase):
    def test_libraries_in_c_are_listed_with_version_and_licence(self):
        found = {part.name: part for part in vendored(HERE, known_packages())}
        self.assertEqual(sorted(found), ["luau", "sqlite", "zstd"])
        for name, text in {
            "luau": "Roblox Corporation",
            "sqlite": "blessing",
            "zstd": "Meta Platforms",
        }.items():
            self.assertRegex(found[name].version, r"^\d+(\.\d+)*$")
            self.assertIn(text, found[name].texts[0])

    def test_each_crate_that_is_linked_has_the_text_of_its_licence(self):
        found = crates(HERE, known_packages())
        names = {part.name for part in found}
        self.assertEqual([part.name for part in found if not part.texts], [])
        self.assertIn("rustls", names)
        # Macros and other parts of the build are not linked.
        self.assertEqual(names & {"syn", "cc", "proc-macro2", "serde_derive"}, set())


class Images(unittest.TestCase):
    def test_the_image_of_a_processor_has_the_static_program_if_there_is_one(self):
        gnu, musl, arm = (
            "x86_64-unknown-linux-gnu",
            "x86_64-unknown-linux-musl",
            "aarch64-unknown-linux-gnu",
        )
        self.assertEqual(targets_of_images([musl, gnu, arm]), {musl, arm})
        self.assertEqual(targets_of_images([gnu]), {gnu})


class Targets(unittest.TestCase):
    def test_a_target_without_a_recipe_names_the_known_ones(self):
        (text,) = zig.missing("riscv64gc-unknown-linux-gnu")
        self.assertIn("x86_64-unknown-linux-musl", text)


if __name__ == "__main__":
    unittest.main()
