"""Token streams without comments, of Rust and Python."""

import unittest

from compare_tokens import first_difference, python_tokens, rust_tokens


class Rust(unittest.TestCase):
    def check_equal(self, one: str, other: str):
        self.assertIsNone(first_difference(rust_tokens(one), rust_tokens(other)))

    def check_differs(self, one: str, other: str):
        self.assertIsNotNone(first_difference(rust_tokens(one), rust_tokens(other)))

    def test_comments_of_all_kinds_do_not_count(self):
        self.check_equal("//! a\n/// b\nfn f() {} // c\n", "//! d\n/// e\n/* f /* g */ h */ fn f() {}")

    def test_the_comma_that_a_broken_line_gets_does_not_count(self):
        self.check_equal("f(a, b)", "f(\n    a, // why\n    b,\n)")

    def test_code_and_texts_count(self):
        self.check_differs("fn f() {}", "fn g() {}")
        self.check_differs('"// a"', '"// b"')
        self.check_differs('r#"/* " a */"#', 'r#"/* " b */"#')
        self.check_differs("'\"'; a //\"", "'\"'; b //\"")
        self.check_differs("f(a)", "f(a, b)")
        self.check_differs("f(a, b)", "f(a)")

    def test_lifetimes_are_no_characters(self):
        self.check_differs("fn f<'a>(x: &'a str) {} // 'b\n", "fn f<'a>(x: &'a u8) {} // 'b\n")

    def test_doc_comments_of_clap_are_messages(self):
        self.check_differs(
            "#[derive(clap::Parser)] struct A { /// one\n a: u8 }",
            "#[derive(clap::Parser)] struct A { /// two\n a: u8 }",
        )

    def test_a_difference_names_its_line(self):
        found = first_difference(rust_tokens("a\nb\nc"), rust_tokens("a\n// x\nb\nd"))
        self.assertEqual(found, "line 4: d, before c")


class Python(unittest.TestCase):
    def test_comments_and_docstrings_do_not_count(self):
        one = '"""a"""\n\ndef f():\n    """b"""\n    return 1  # c\n'
        other = '"""d"""\ndef f():\n    """e"""\n    # g\n    return 1\n'
        self.assertIsNone(first_difference(python_tokens(one), python_tokens(other)))

    def test_code_indentation_and_texts_count(self):
        base = "if a:\n    b()\nc('# x')\n"
        for other in (
            "if a:\n    b()\n    c('# x')\n",
            "if a:\n    b()\nc('# y')\n",
            "if a:\n    d()\nc('# x')\n",
        ):
            self.assertIsNotNone(first_difference(python_tokens(base), python_tokens(other)), other)


if __name__ == "__main__":
    unittest.main()
