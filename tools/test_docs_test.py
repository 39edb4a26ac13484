"""Blocks and markers of pages, and the actions of the runner."""

import os
import tempfile
import time
import unittest
from collections import Counter
from pathlib import Path

from docs_test import (
    ROOT,
    Block,
    Fault,
    Marker,
    Page,
    Result,
    Step,
    commands_of,
    has,
    is_marked,
    is_part,
    pages,
    steps_of,
    table,
)


class Pages(unittest.TestCase):
    def refused(self, page: str, line: int, reason: str):
        with self.assertRaisesRegex(Fault, reason) as caught:
            steps_of(page)
        self.assertEqual(caught.exception.line, line)

    def test_a_block_is_indented_by_four_spaces_after_an_empty_line(self):
        self.assertEqual(
            steps_of("# A\n\nText\n    goes on.\n\n    a\n      b\n\nText.\n\n    c\n"),
            [Block(6, "a\n  b\n"), Block(11, "c\n")],
        )

    def test_empty_lines_belong_to_a_block_between_its_lines_only(self):
        self.assertEqual(
            steps_of("    cat <<'EOT'\n\n    x\n    EOT\n\n\nText.\n"), [Block(1, "cat <<'EOT'\n\nx\nEOT\n")]
        )

    def test_markers_belong_to_the_next_block(self):
        page = "Text:\n\n<!-- docs-test: expect a b -->\n<!-- docs-test: within 3 -->\n\n    a\n\n    b\n"
        markers = [Marker("expect", "a b"), Marker("within", "3")]
        self.assertEqual(steps_of(page), [Block(6, "a\n\nb\n", markers)])

    def test_a_comment_separates_two_blocks(self):
        page = "    a\n\n<!-- docs-test: sql app -->\n\n    b\n"
        self.assertEqual(steps_of(page), [Block(1, "a\n"), Block(5, "b\n", [Marker("sql", "app")])])

    def test_steps_stand_in_the_order_of_the_page(self):
        page = "    a\n\n<!-- docs-test: stop -->\n<!-- docs-test: run: b c -->\nText.\n"
        steps = [Block(1, "a\n"), Step(3, Marker("stop", "")), Step(4, Marker("run:", "b c"))]
        self.assertEqual(steps_of(page), steps)

    def test_a_marker_that_is_wrong_is_refused_with_its_line(self):
        self.refused("\n<!-- docs-test: nonsense -->\n", 2, "no such marker: 'nonsense'")
        self.refused("<!-- docs-test: not run: -->\n\n    a\n", 1, "needs an argument")
        self.refused("<!-- docs-test: stop now -->\n", 1, "has no argument")
        self.refused("<!-- docs-test: within soon -->\n\n    a\n", 1, "whole number")
        self.refused("<!-- docs-test: start: a -->\n", 1, "until")

    def test_a_marker_of_a_block_without_its_block_is_refused(self):
        self.refused("<!-- docs-test: expect a -->\n", 1, "no block follows")
        self.refused("<!-- docs-test: expect a -->\n\nText.\n\n    a\n", 1, "before other text")

    def test_a_fenced_block_is_refused(self):
        self.refused("Text.\n\n```sh\na\n```\n", 3, "fenced")

    def test_a_page_is_marked_by_any_marker(self):
        self.assertTrue(is_marked("Text.\n<!-- docs-test: stop -->\n"))
        self.assertFalse(is_marked("Text.\n<!-- a comment -->\n\n    a\n"))

    def test_a_transcript_runs_only_its_lines_with_a_prompt(self):
        self.assertEqual(commands_of("$ a\nout\n$ b\n"), "a\nb\n")
        self.assertEqual(commands_of("$ a\nout\n$ b\n", pause=2), "sleep 2\na\nsleep 2\nb\n")
        self.assertEqual(commands_of("a\n$ b\n"), "a\n$ b\n")

    def test_white_space_of_an_output_counts_once(self):
        self.assertTrue(has("item   count\ntea\t2\n", "count tea 2"))
        self.assertFalse(has("item", "count"))

    def test_a_block_is_a_part_of_a_text_by_whole_lines(self):
        self.assertTrue(is_part("b\nc\n", "a\nb\nc\nd\n"))
        self.assertFalse(is_part("b\nc\n", "ab\nc\nd\n"))
        self.assertFalse(is_part("b\nd\n", "a\nb\nc\nd\n"))

    def test_each_part_of_a_file_in_the_pages_is_in_its_file(self):
        count = 0
        for name in pages():
            for step in steps_of((ROOT / name).read_text()):
                part = step.one("part of") if isinstance(step, Block) else None
                if part is not None:
                    count += 1
                    self.assertTrue(
                        is_part(step.text, (ROOT / part).read_text()), f"{name}:{step.line}: {part}"
                    )
        self.assertGreater(count, 20)

    def test_each_sender_of_the_repository_is_run_by_a_page(self):
        steps = [step for name in pages() for step in steps_of((ROOT / name).read_text())]
        run = {
            step.marker.argument for step in steps if isinstance(step, Step) and step.marker.name == "sender:"
        }
        self.assertEqual(run, {path.parent.name for path in (ROOT / "tests/senders").glob("*/rows.json")})

    def test_the_table_has_each_reason(self):
        rows = [
            Result("a.md", "passed", 3, Counter({"a drawing": 2})),
            Result("b.md", "not marked", 0, Counter()),
        ]
        self.assertEqual(
            table(rows),
            "page  state       run  not run\n"
            "a.md  passed        3        2\n"
            "      2 not run: a drawing\n"
            "b.md  not marked    0        0",
        )


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)
        self.clone = self.work / "clone"
        self.clone.mkdir()
        self.page = Page(self.work, self.clone, {"PATH": os.environ["PATH"]}, verbose=False)
        self.addCleanup(self.page.close)

    def run_page(self, page: str):
        self.page.run(steps_of(page))

    def fails(self, page: str, line: int, reason: str):
        with self.assertRaisesRegex(Fault, reason) as caught:
            self.run_page(page)
        self.assertEqual(caught.exception.line, line)

    def test_variables_and_the_folder_of_a_block_are_there_in_the_next(self):
        self.run_page('    A="1  2"\n    mkdir b; cd b\n\nThen:\n\n    test "$A" = "1  2" && echo >c\n')
        self.assertTrue((self.clone / "b/c").exists())

    def test_a_variable_that_is_not_exported_does_not_reach_programs(self):
        self.fails("    A=1\n\nThen:\n\n    printenv A\n", 5, "exit code 1")

    def test_a_block_fails_at_the_first_command_that_fails(self):
        self.fails(
            "Text:\n\n    echo begun\n    false\n    touch after\n", 3, "exit code 1, expected 0\n    begun"
        )
        self.assertFalse((self.clone / "after").exists())

    def test_a_part_of_a_pipe_that_fails_fails_the_block(self):
        self.fails("    false | true\n", 1, "exit code 1")

    def test_an_expected_exit_code_is_no_failure(self):
        self.run_page("<!-- docs-test: exit 3 -->\n\n    exit 3\n")

    def test_an_output_that_lacks_the_expected_text_fails(self):
        self.run_page("<!-- docs-test: expect a b -->\n\n    echo 'a   b'\n")
        self.fails("<!-- docs-test: expect c -->\n\n    echo a\n", 3, "the output lacks 'c'\n    a")

    def test_a_block_is_repeated_within_its_time(self):
        self.run_page(
            "<!-- docs-test: within 10 -->\n<!-- docs-test: expect xxx -->\n\n    echo -n x >>a; cat a\n"
        )

    def test_a_block_that_runs_too_long_fails(self):
        self.fails("<!-- docs-test: limit 0 -->\n\n    sleep 60\n", 3, "still runs after 0 s")

    def test_a_block_that_is_not_run_is_counted_by_its_reason(self):
        self.run_page("<!-- docs-test: not run: a drawing -->\n\n    false\n")
        self.assertEqual((self.page.run_count, self.page.reasons), (0, Counter({"a drawing": 1})))

    def test_a_block_that_is_no_part_of_its_file_fails(self):
        (self.clone / "a.toml").write_text("x = 1\ny = 2\n")
        self.run_page("<!-- docs-test: part of a.toml -->\n\n    y = 2\n")
        self.fails("<!-- docs-test: part of a.toml -->\n\n    y = 3\n", 3, "no part of a.toml")
        self.fails("<!-- docs-test: part of b.toml -->\n\n    y = 2\n", 3, "no part of b.toml")

    def test_a_sender_runs_if_it_is_installed(self):
        run = self.clone / "tests/senders/run.py"
        run.parent.mkdir(parents=True)
        run.write_text("#!/bin/sh\necho $2: not installed\n")
        run.chmod(0o755)
        self.run_page("<!-- docs-test: sender: a -->\n")
        self.assertEqual((self.page.run_count, self.page.reasons.total()), (0, 1))
        run.write_text("#!/bin/sh\necho $2: its rows are there\n")
        self.run_page("<!-- docs-test: sender: a -->\n")
        self.assertEqual((self.page.run_count, self.page.reasons.total()), (1, 1))
        run.write_text("#!/bin/sh\nexit 1\n")
        self.fails("<!-- docs-test: sender: a -->\n", 1, "exit code 1")

    def test_files_are_written_and_appended_in_the_folder_of_the_page(self):
        self.run_page(
            "    mkdir a; cd a\n\n<!-- docs-test: write b/c -->\n\n    1\n\n<!-- docs-test: append b/c -->\n\n    2\n"
        )
        self.assertEqual((self.clone / "a/b/c").read_text(), "1\n2\n")

    def test_a_background_block_runs_until_the_page_stops_it(self):
        self.run_page(
            "<!-- docs-test: background until ready -->\n\n"
            "    trap 'echo >stopped; exit' INT; echo ready; while :; do sleep 0.01; done\n\n"
            "<!-- docs-test: stop -->\n"
        )
        self.assertTrue((self.clone / "stopped").exists())

    def test_a_background_block_that_ends_early_fails(self):
        self.fails(
            "<!-- docs-test: background until ready -->\n\n    echo no\n", 3, "exit code 0 before the output"
        )

    def test_a_server_that_died_is_not_stopped(self):
        page = "<!-- docs-test: background until ready -->\n\n    echo ready; exit 1\n"
        self.run_page(page)
        self.assertTrue(self.page.background[-1].wait(10))
        self.fails("<!-- docs-test: stop -->\n", 1, "ended by itself: 1")

    def test_processes_of_a_page_end_with_it(self):
        self.run_page("    sleep 600 & echo $! >pid\n")
        child = int((self.clone / "pid").read_text())
        self.page.close()
        deadline = time.monotonic() + 10
        while is_alive(child) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(is_alive(child))


def is_alive(process: int) -> bool:
    """Returns whether a process runs. A process that has ended and waits to be reaped does not run."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    unittest.main()
