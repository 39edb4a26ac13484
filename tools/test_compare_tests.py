"""Names of tests in Rust sources, and their difference."""

import unittest

from compare_tests import Difference, Name, contents_of, difference, names_in, place_of, tests_in


class Sources(unittest.TestCase):
    def check(self, source: str, *expected: str):
        self.assertEqual(tests_in(source), list(expected))

    def test_functions_with_a_test_attribute_are_tests(self):
        self.check(
            "fn helper() {}\n#[test]\nfn one() {}\nfn other() {}\n#[tokio::test]\nasync fn two() {}\n",
            "one",
            "two",
        )

    def test_attributes_with_arguments_and_other_attributes_between_count(self):
        self.check(
            '#[tokio::test(flavor = "current_thread", start_paused = true)]\n#[ignore = "]"]\nasync fn one() {}',
            "one",
        )
        self.check("#[should_panic]\n#[test]\n#[allow(clippy::panic)]\npub(crate) fn two() {}", "two")

    def test_attributes_that_only_sound_like_tests_do_not_count(self):
        self.check("#[cfg(test)]\nfn one() {}\n#[test_only]\nfn two() {}\n#[attest]\nfn three() {}")

    def test_modules_are_part_of_the_name(self):
        source = """
            mod outside;
            #[cfg(test)]
            mod tests {
                fn helper() { if true { loop {} } }
                #[test]
                fn one() { let x = { 1 }; }
                mod inner { #[test] fn two() {} }
                #[test]
                fn three() {}
            }
            #[test]
            fn four() {}
        """
        self.check(source, "tests::one", "tests::inner::two", "tests::three", "four")

    def test_functions_of_proptest_count(self):
        self.check(
            "proptest! {\n#![proptest_config(C { cases: 1 })]\n#[test]\nfn one(value in 0..9u8) {}\n}", "one"
        )

    def test_strings_characters_and_comments_are_no_code(self):
        source = r"""
            // #[test] fn comment() {}
            /* { /* } */ #[test] fn outer() {} */
            const A: &str = "mod a { #[test] fn string() {}";
            const B: &str = r#"} #[test] fn raw() {} ""#;
            const C: [char; 3] = ['{', '\'', '"'];
            fn lifetime<'a>(b: &'a u8) -> &'a u8 { b }
            mod tests { #[test] fn one() { assert_eq!(b'}', b'\x7d'); } #[test] fn two() {} }
        """
        self.check(source, "tests::one", "tests::two")


class Places(unittest.TestCase):
    def test_modules_follow_the_path_of_the_file(self):
        table = {
            "crates/one/src/lib.rs": ("one", []),
            "crates/one/src/main.rs": ("one", []),
            "crates/one/src/a.rs": ("one", ["a"]),
            "crates/one/src/a/mod.rs": ("one", ["a"]),
            "crates/one/src/a/tests.rs": ("one", ["a", "tests"]),
            "crates/one/tests/http/main.rs": ("one/tests/http", []),
            "crates/one/tests/http/limits.rs": ("one/tests/http", ["limits"]),
            "crates/one/tests/properties.rs": ("one/tests/properties", []),
            "crates/one/examples/work/main.rs": ("one/examples/work", []),
            "fuzz/src/head.rs": ("fuzz", ["head"]),
            "fuzz/targets/head.rs": None,
            "build.rs": None,
        }
        self.assertEqual({file: place_of(file) for file in table}, table)

    def test_a_name_has_crate_and_modules(self):
        files = {
            "crates/one/src/a.rs": "mod tests { #[test] fn it_works() {} }",
            "notes.rs": "#[test] fn no() {}",
        }
        self.assertEqual([str(name) for name in names_in(files)], ["one a::tests::it_works"])


class Differences(unittest.TestCase):
    def test_tests_are_gone_new_or_moved(self):
        kept, gone, new = Name("one", "kept"), Name("one", "a::gone"), Name("two", "new")
        here, there = Name("one", "a::moves"), Name("two", "b::moves")
        self.assertEqual(
            difference({kept, gone, here}, {kept, new, there}), Difference([gone], [new], [(here, there)])
        )

    def test_one_new_test_stands_for_one_gone_test_of_its_name(self):
        first, second, moved = Name("one", "a::x"), Name("one", "b::x"), Name("two", "c::x")
        self.assertEqual(difference({first, second}, {moved}), Difference([second], [], [(first, moved)]))
        self.assertEqual(difference({moved}, {first, second}), Difference([], [second], [(moved, first)]))


class Git(unittest.TestCase):
    def test_the_answer_of_a_batch_is_taken_apart_by_lengths(self):
        answer = b"1234 blob 6\nfn a()\n5678 blob 0\n\n9abc blob 9\nmod b {\n}\n"
        self.assertEqual(contents_of(answer), ["fn a()", "", "mod b {\n}"])


if __name__ == "__main__":
    unittest.main()
