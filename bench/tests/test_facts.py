"""Facts that are read from the sources of the program."""

import tempfile
import unittest
from pathlib import Path

from lib.facts import bytes_of, constant, number


class Constants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, path: str, text: str):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def test_a_constant_is_found_wherever_its_file_lies(self):
        self.write(
            "one/src/files/source.rs",
            "pub(super) const BYTES_MAX: u64 = 16 << 10;\nconst BYTES_MAX_OF: u64 = 1;\n",
        )
        self.write("one/src/files/cache.rs", "const BYTES_MAX: u64 = 1;\n")
        self.assertEqual(constant("source.rs", "BYTES_MAX", "u64", self.folder), 16_384)

    def test_the_type_tells_constants_of_one_name_apart(self):
        self.write("source.rs", "const BYTES_MAX: usize = 8 << 20;\nconst BYTES_MAX: u64 = 4_096;\n")
        self.assertEqual(constant("source.rs", "BYTES_MAX", "u64", self.folder), 4096)

    def test_a_constant_that_is_missing_or_repeated_is_refused(self):
        self.write("one/source.rs", "const A: u64 = 1;\n")
        self.write("two/source.rs", "const A: u64 = 1;\n")
        for name, count in (("A", 2), ("B", 0)):
            with self.subTest(name), self.assertRaisesRegex(LookupError, f"^{count} files"):
                constant("source.rs", name, "u64", self.folder)

    def test_numbers_are_integers_shifts_and_products(self):
        found = {text: number(text) for text in ("7", "1_000", "16 << 10", "4 * 1024 * 2")}
        self.assertEqual(found, {"7": 7, "1_000": 1000, "16 << 10": 16_384, "4 * 1024 * 2": 8192})
        with self.assertRaises(ValueError):
            number("OTHER + 1")

    def test_studies_find_their_constants(self):
        self.assertEqual(constant("call_speed/work.rs", "REPEATED", "u32") > 0, True)
        self.assertEqual(constant("source.rs", "CONTENT_BYTES_MAX", "u64") > 0, True)


class Amounts(unittest.TestCase):
    def test_amounts_are_bytes(self):
        self.assertEqual(
            [bytes_of(text) for text in ("8000B", "16KiB", "256MiB", "1GiB")],
            [8000, 1 << 14, 1 << 28, 1 << 30],
        )


if __name__ == "__main__":
    unittest.main()
