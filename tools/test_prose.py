"""Prose of Markdown, Rust and Python, its sentences, samples of them, and phrases to avoid."""

import unittest
from collections import Counter

from check_phrases import faults, owner, phrases_of, shrunk, written
from prose import Piece, pieces_of, sentences
from sample_sentences import draw, sentences_of


class Pieces(unittest.TestCase):
    def check(self, name: str, text: str, *expected: tuple[int, str]):
        self.assertEqual(pieces_of(name, text), [Piece(*piece) for piece in expected])

    def test_markdown_has_paragraphs_and_items_without_code_tables_and_headings(self):
        self.check(
            "a.md",
            "# Title\n\nOne\ntwo.\n\n    code\n\n- Item\n  goes on\n- Next\n\n| a | b |\n\n```\ncode\n```\nLast\n",
            (3, "One\ntwo."),
            (8, "Item\ngoes on"),
            (10, "Next"),
            (17, "Last"),
        )

    def test_a_link_is_its_text_and_keeps_the_line_breaks(self):
        self.check("a.md", "See [the\nlog](pages/log.md) and [x](y).", (1, "See the\nlog and x."))

    def test_comments_of_rust_are_blocks_and_literals_are_none(self):
        self.check(
            "a.rs",
            '//! Head\n//! of it.\n\nfn f() {\n    let a = "// no"; // Beside.\n    // Alone\n'
            "    // and on.\n    let b = 'a'; let c = r#\"// no\"#;\n}\n/// Doc.\n// Other.\n",
            (1, "Head\nof it."),
            (5, "Beside."),
            (6, "Alone\nand on."),
            (10, "Doc."),
            (11, "Other."),
        )

    def test_lifetimes_begin_no_character(self):
        self.check("a.rs", "fn f<'a>(x: &'a str) {} // One.\n", (1, "One."))

    def test_code_and_headings_in_doc_comments_are_left_out(self):
        self.check(
            "a.rs",
            "/// Reads.\n///\n/// # Errors\n/// Fails.\n/// ```\n/// f()\n/// ```\n",
            (1, "Reads."),
            (4, "Fails."),
        )

    def test_comments_and_docstrings_of_python_count_and_strings_do_not(self):
        self.check(
            "a.py",
            'def f():\n    """Head.\n\n    Goes\n    on.\n    """\n'
            '    # Why\n    # so.\n    return "# no"  # Beside.\n',
            (7, "Why\nso."),
            (9, "Beside."),
            (2, "Head."),
            (4, "Goes\non."),
        )


class Sentences(unittest.TestCase):
    def check(self, text: str, *expected: tuple[int, str]):
        self.assertEqual(sentences(Piece(1, text)), [Piece(*sentence) for sentence in expected])

    def test_a_sentence_ends_at_a_full_stop_before_a_capital(self):
        self.check(
            "It is 3.5 us. Then\nit ends. `x` goes on!",
            (1, "It is 3.5 us."),
            (1, "Then it ends."),
            (2, "`x` goes on!"),
        )

    def test_abbreviations_end_no_sentence(self):
        self.check("A unit, e.g. KiB, is there.", (1, "A unit, e.g. KiB, is there."))
        self.check("Some, i.e. None, is there.", (1, "Some, i.e. None, is there."))

    def test_marks_after_the_full_stop_belong_to_the_sentence(self):
        self.check("**Bold.** Plain (so.) More.", (1, "**Bold.**"), (1, "Plain (so.)"), (1, "More."))


class Samples(unittest.TestCase):
    def test_short_sentences_are_left_out(self):
        found = sentences_of("a.md", "Too short. This one has enough words.")
        self.assertEqual([place.text for place in found], ["This one has enough words."])

    def test_a_seed_draws_the_same_in_the_order_of_the_files(self):
        text = "\n\n".join(f"Sentence number {number} is here." for number in range(50))
        places = sentences_of("a.md", text)
        drawn = draw(places, 5, "7")
        self.assertEqual(drawn, draw(places, 5, "7"))
        self.assertEqual(drawn, sorted(drawn))
        self.assertNotEqual(drawn, draw(places, 5, "8"))
        self.assertEqual(draw(places, 99, "7"), places)


class Phrases(unittest.TestCase):
    def check(self, text: str, *expected: tuple[int, str]):
        self.assertEqual([(place.line, place.phrase) for place in phrases_of("a.md", text)], list(expected))

    def test_phrases_are_found_with_their_line_also_over_two_lines(self):
        self.check(
            "It is so.\nNobody knows, and at one\nstroke it ends.",
            (2, "Nobody"),
            (2, "at one stroke"),
        )
        self.check("A file that\nwas left, and those who wait.", (2, "was left"), (2, "those who"))

    def test_words_in_quotes_and_backticks_are_mentioned_and_do_not_count(self):
        self.check('Write "reported" for "told", and `nobody` is a user.')

    def test_parts_of_words_and_allowed_uses_do_not_count(self):
        self.check("Mushrooms foretells. A chat room has members. So much that it fails.")

    def test_a_folder_above_its_bound_is_a_fault_and_one_without_a_bound_may_have_none(self):
        counts = Counter({"docs": 3, "tools": 1, "fuzz": 2})
        found = faults(counts, {"docs": 2, "fuzz": 2})
        self.assertEqual(
            found, ["docs: 3 phrases to avoid, at most 2", "tools: 1 phrases to avoid, at most 0"]
        )

    def test_bounds_shrink_and_never_grow(self):
        bounds = shrunk(Counter({"docs": 3, "fuzz": 1}), {"docs": 2, "fuzz": 4, "tools": 1})
        self.assertEqual(bounds, {"docs": 2, "fuzz": 1})
        self.assertTrue(written(bounds).endswith('"docs" = 2\n"fuzz" = 1\n'))

    def test_a_crate_counts_for_itself_and_a_page_for_its_first_folder(self):
        names = ["crates/tollgate-log/src/lib.rs", "docs/README.md", "README.md"]
        self.assertEqual([owner(name) for name in names], ["crates/tollgate-log", "docs", "README.md"])


if __name__ == "__main__":
    unittest.main()
