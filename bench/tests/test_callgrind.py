"""The output of callgrind, and the counts in it."""

import unittest

from lib.callgrind import is_of_worker, total_of_dump, total_of_run

DUMP = """\
# callgrind format
version: 1
events: Ir
summary: 99

fn=(1) main
16 400

totals: 123456789
"""
RUN = """\
==4242== Callgrind, a call-graph generating cache profiler
==4242== Events    : Ir
==4242== Collected : 2345678
==4242==
==4242== I   refs:      2,345,678
"""


class Callgrind(unittest.TestCase):
    def test_a_dump_has_its_total_in_its_last_line(self):
        self.assertEqual(total_of_dump(DUMP), 123_456_789)

    def test_a_worker_is_the_thread_that_serves_connections(self):
        worker = DUMP.replace("main", "tollgate_server::conn::run::serve")
        self.assertEqual([is_of_worker(text) for text in (DUMP, worker)], [False, True])

    def test_a_run_prints_what_it_collected(self):
        self.assertEqual(total_of_run(RUN), 2_345_678)

    def test_a_dump_without_a_total_is_refused(self):
        with self.assertRaisesRegex(ValueError, "callgrind wrote no line like"):
            total_of_dump(DUMP.replace("totals:", "total:"))

    def test_a_run_without_a_count_is_refused(self):
        with self.assertRaisesRegex(ValueError, "Fatal error at startup"):
            total_of_run("valgrind: Fatal error at startup\n")


if __name__ == "__main__":
    unittest.main()
