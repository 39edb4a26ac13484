"""The source of the book from index pages, links between its pages, and links of the built site."""

import re
import tempfile
import unittest
from collections import Counter
from pathlib import Path

from build_book import (
    Fault,
    Tree,
    book_of,
    entries_of,
    faults_of,
    is_page_of_docs,
    place_of,
    results_of,
    shown,
    tracked,
)

INDEX = (
    "# Pages\n\n## Tutorial\n\n| page | reader |\n| --- | --- |\n| [First](tutorial/quickstart.md) | all |\n"
)


def tree(**pages: str) -> Tree:
    """Returns the Markdown pages of the arguments. In their names `_` means `/`, and `.md` is left out."""
    texts = {f"{name.replace('_', '/')}.md": text for name, text in pages.items()}
    return Tree(frozenset(texts), texts.__getitem__)


class Repository(unittest.TestCase):
    def test_the_summary_lists_each_page_of_docs_once(self):
        files = tracked()
        texts, _ = book_of(files)
        listed = Counter(re.findall(r"\[[^\]]+\]\(([^)]+)\)", texts.pop("SUMMARY.md")))
        pages = {place_of(name) for name in files.names if is_page_of_docs(name)}
        self.assertGreater(len(pages), 25)
        self.assertEqual(listed, Counter(dict.fromkeys(texts, 1)))
        self.assertLessEqual(pages, set(listed))


class Summary(unittest.TestCase):
    def check_fault(self, files: Tree, expected: str):
        with self.assertRaises(Fault) as raised:
            book_of(files)
        self.assertEqual(str(raised.exception), expected)

    def test_entries_are_the_first_links_of_rows_and_items_below_their_heading(self):
        text = (
            "- A [jump](#a)\n\n## Engine\n\n"
            "- [sqlite-file-identity.md](sqlite-file-identity.md): [b](b.md)\n| [C](../durability.md) | d |\n"
        )
        found = [tuple(entry) for entry in entries_of("docs/explanation/decisions/README.md", text)]
        self.assertEqual(
            found,
            [
                ("Engine", "SQLite file identity", "docs/explanation/decisions/sqlite-file-identity.md"),
                ("Engine", "C", "docs/explanation/durability.md"),
            ],
        )

    def test_parts_are_headings_and_an_inner_index_has_chapters_without_a_page(self):
        files = tree(
            docs_README=INDEX + "\n## Why\n\n| [Decisions](why/README.md) | all |\n",
            docs_tutorial_quickstart="[a](../../ARCHITECTURE.md)",
            docs_why_README="# Decisions\n\n## Log\n\n- [one.md](one.md): first\n",
            docs_why_one="# One\n",
            ARCHITECTURE="# Map\n",
        )
        expected = """\
# Summary

[Documentation](index.md)

# Tutorial

- [First](tutorial/quickstart.md)

# Why

- [Decisions](why/index.md)
  - [Log]()
    - [One](why/one.md)

# Files of the repository

- [ARCHITECTURE.md](repository/ARCHITECTURE.md)
"""
        self.assertEqual(book_of(files)[0]["SUMMARY.md"], expected)

    def test_a_page_that_is_not_listed_once_is_a_fault(self):
        self.check_fault(
            tree(docs_README=INDEX, docs_tutorial_quickstart="", docs_reference_http=""),
            "docs/reference/http.md: no index lists it",
        )
        self.check_fault(
            tree(docs_README=INDEX), "docs/tutorial/quickstart.md: an index lists it, but it does not exist"
        )
        self.check_fault(
            tree(
                docs_README=INDEX + "| [Again](tutorial/quickstart.md) | all |\n", docs_tutorial_quickstart=""
            ),
            "docs/tutorial/quickstart.md: listed 2 times",
        )


class Links(unittest.TestCase):
    def check(self, link: str, expected: str):
        files = tree(
            docs_README=INDEX,
            docs_tutorial_quickstart=f"A [page]({link}).\n",
            README="[docs](docs/README.md)",
            examples_score_README="",
        )
        self.assertEqual(book_of(files)[0]["tutorial/quickstart.md"], f"A [page]({expected}).\n")

    def test_links_lead_to_the_places_of_the_book(self):
        self.check("../README.md", "../index.md")
        self.check("../README.md#tutorial", "../index.md#tutorial")
        self.check("quickstart.md", "quickstart.md")
        self.check("../../README.md", "../repository/index.md")
        self.check("../../examples/score", "../repository/examples/score/index.md")

    def test_other_links_stay(self):
        self.check("#heading", "#heading")
        self.check("https://example.org/README.md", "https://example.org/README.md")
        self.check("gone.md", "gone.md")

    def test_a_page_outside_of_docs_has_links_to_the_book(self):
        files = tree(
            docs_README=INDEX,
            docs_tutorial_quickstart="[a](../../A.md)",
            A="[index](docs/README.md) [b](B.md)",
            B="",
        )
        texts, _ = book_of(files)
        self.assertEqual(texts["repository/A.md"], "[index](../index.md) [b](B.md)")
        self.assertIn("repository/B.md", texts)

    def test_code_stays(self):
        text = "`t[1](../README.md)` and `f\n[2](../README.md)`\n\n```\nt[3](../README.md)\n```\n"
        files = tree(docs_README=INDEX, docs_tutorial_quickstart=text)
        self.assertEqual(book_of(files)[0]["tutorial/quickstart.md"], text)

    def test_pictures_are_copied_and_other_texts_are_shown_as_code(self):
        first = "![p](../explanation/where.svg) [u](../../dist/a.service)"
        texts = {
            "docs/README.md": INDEX,
            "docs/tutorial/quickstart.md": first,
            "docs/explanation/where.svg": "",
            "dist/a.service": "[Unit]\n",
        }
        book, pictures = book_of(Tree(frozenset(texts), texts.__getitem__))
        self.assertEqual(pictures, ["docs/explanation/where.svg"])
        self.assertEqual(
            book["tutorial/quickstart.md"],
            "![p](../explanation/where.svg) [u](../repository/dist/a.service.md)",
        )
        self.assertIn("\n```\n[Unit]\n```\n", book["repository/dist/a.service.md"])

    def test_a_fence_is_longer_than_those_of_the_text(self):
        self.assertIn("\n```\n`a`\n```\n", shown("a", "`a`\n"))
        self.assertIn("\n````\n```\na\n```\n````\n", shown("a", "```\na\n```\n"))


class Site(unittest.TestCase):
    def check(self, body: str, *expected: str):
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder)
            (site / "in").mkdir()
            (site / "in/a.html").write_text(body)
            (site / "b.html").write_text('<h1 id="ü">B</h1>')
            (site / "c.js").write_text("")
            self.assertEqual(faults_of(site), list(expected))

    def test_links_to_files_and_headings_are_sound(self):
        self.check('<a id="here" href="../b.html#%C3%BC">b</a> <a href="#here">c</a>')
        self.check('<script src="../c.js"></script> <a href="https://example.org">d</a>')

    def test_links_that_lead_nowhere_are_faults(self):
        self.check('<a href="../d.html">d</a>', "in/a.html: ../d.html: no such file")
        self.check('<a href="..">d</a>', "in/a.html: ..: no such file")
        self.check('<a href="../b.html#x">b</a>', "in/a.html: ../b.html#x: no such heading")
        self.check('<a href="#x">b</a>', "in/a.html: #x: no such heading")
        self.check('<a href="../c.js#x">c</a>', "in/a.html: ../c.js#x: no such heading")
        self.check('<link href="d.css">', "in/a.html: d.css: no such file")

    def test_what_a_page_loads_from_outside_of_the_folder_is_a_fault(self):
        self.check('<img src="https://example.org/a.png">', "in/a.html: loads https://example.org/a.png")
        self.check('<script src="//example.org/a.js"></script>', "in/a.html: loads //example.org/a.js")

    def test_results_are_the_pages_in_the_list_of_results(self):
        dom = '<a href="x.html"></a><ul id="mdbook-searchresults"><li><a href="../a.html?highlight=b#c">A</a></li></ul>'
        self.assertEqual(results_of(dom), ["../a.html"])
        self.assertEqual(results_of("<ul></ul>"), [])


if __name__ == "__main__":
    unittest.main()
