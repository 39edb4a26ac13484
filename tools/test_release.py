"""Tests of the checks before a release, each in a repository of its own."""

import datetime
import subprocess
import tempfile
import unittest
from pathlib import Path

import release

TODAY = datetime.date(2027, 1, 31)
CHANGELOG = "# Changelog\n\n## 0.2.0 - 2027-01-31\n\n**HTTP**\n- New.\n\n## 0.1.0 - 2026-12-01\n\n- Old.\n"


def run(folder: Path, *command: str) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


class Checks(unittest.TestCase):
    """Starts with a repository in which nothing is wrong."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        self.write("CHANGELOG.md", CHANGELOG)
        self.write(
            "Cargo.toml", '[workspace.package]\nversion = "0.2.0"\nauthors = ["Ada <ada@tollgate.org>"]\n'
        )
        for path in release.EXAMPLES:
            self.write(path, "tollgate-0.2.0-amd64.oci.tar\n")
        run(self.root, "git", "init", "--quiet")
        run(self.root, "git", "add", ".")
        run(self.root, "git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--message", "first")

    def write(self, path: str, text: str) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def change(self, path: str, old: str, new: str) -> None:
        text = (self.root / path).read_text()
        self.assertIn(old, text)
        self.write(path, text.replace(old, new))

    def faults(self, wanted: str = "0.2.0") -> list[str]:
        always = release.faults_of_each_commit(self.root, wanted)
        return [*always, *release.faults_of_the_day(self.root, wanted, TODAY)]

    def assert_fault(self, part: str, wanted: str = "0.2.0") -> None:
        found = self.faults(wanted)
        self.assertTrue(any(part in fault for fault in found), found)

    def test_a_repository_in_which_all_fits_has_no_faults(self):
        self.assertEqual(self.faults(), [])

    def test_the_version_is_one_of_semver(self):
        for wanted in ("0.2", "v0.2.0", "0.02.0", "0.2.0 "):
            self.assert_fault("expected is a version of SemVer", wanted)

    def test_the_version_of_cargo_is_the_one_of_the_release(self):
        self.assert_fault("Cargo.toml has the version 0.2.0, not 0.3.0", "0.3.0")

    def test_the_first_section_of_the_changelog_is_the_one_of_the_release(self):
        self.change("CHANGELOG.md", "## 0.2.0 - 2027-01-31", "## 0.1.9 - 2027-01-31")
        self.assert_fault("the first section of CHANGELOG.md is ## 0.1.9 - 2027-01-31, not 0.2.0")

    def test_the_section_of_the_release_has_a_date(self):
        for heading in ("0.2.0 (unreleased)", "0.2.0 - soon"):
            self.write("CHANGELOG.md", CHANGELOG.replace("0.2.0 - 2027-01-31", heading))
            self.assert_fault("CHANGELOG.md has no date for 0.2.0. Write: ## 0.2.0 - 2027-01-31")

    def test_a_release_is_not_dated_to_a_later_day(self):
        self.change("CHANGELOG.md", "2027-01-31", "2027-02-01")
        self.assert_fault("which is after today, 2027-01-31")

    def test_a_download_in_the_docs_has_the_version_of_the_release(self):
        for path in release.EXAMPLES:
            self.write(path, "image: tollgate:0.1.0\n")
            self.assert_fault(f"{path} names the version 0.1.0, not 0.2.0")

    def test_a_changed_or_new_file_is_named(self):
        self.write("new.txt", "")
        self.assert_fault("files differ from the commit: new.txt")

    def test_a_tag_that_exists_is_refused(self):
        run(self.root, "git", "tag", "v0.2.0")
        self.assert_fault("the tag v0.2.0 exists")

    def test_the_placeholder_of_the_maintainer_is_refused(self):
        self.change("Cargo.toml", "ada@tollgate.org", "ada@tollgate.example")
        self.assert_fault("authors of Cargo.toml is the placeholder")

    def test_the_tag_is_signed_and_names_the_release(self):
        # A stand-in for GnuPG, because not every machine has a program that signs.
        signer = self.root / "signer"
        self.write("signer", "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho SIGNATURE\n")
        signer.chmod(0o755)
        settings = {"gpg.program": str(signer), "user.name": "a", "user.email": "a@b"}
        for name, value in settings.items():
            run(self.root, "git", "config", name, value)
        tag, _ = release.commands_of_tag("0.2.0")
        run(self.root, *tag)
        text = release.git(self.root, "cat-file", "tag", "v0.2.0")
        self.assertIn("\nTollgate 0.2.0\nSIGNATURE", text)

    def test_the_notes_are_the_section_of_the_release(self):
        self.assertEqual(release.notes(self.root, "0.2.0"), "**HTTP**\n- New.\n")


if __name__ == "__main__":
    unittest.main()
