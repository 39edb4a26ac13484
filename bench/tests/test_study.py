"""Each study can be started, and has a title."""

import importlib
import unittest

import study


class Studies(unittest.TestCase):
    def test_each_study_has_a_title_and_a_main_function(self):
        names = study.names()
        self.assertIn("downloads", names)
        for name in names:
            with self.subTest(name):
                self.assertGreater(len(study.title_of(name)), 10)
                self.assertTrue(callable(importlib.import_module(f"studies.{name}").main))


if __name__ == "__main__":
    unittest.main()
