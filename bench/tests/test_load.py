"""The output of the load generators, and the figures in it."""

import unittest

from lib.load import Figures, ab_figures, oha_figures, wrk_figures

WRK = """\
Running 1s test @ http://127.0.0.1:8299/x
  31768 requests in 1.00s, 5.12MB read
Requests/sec:  31642.22
RESULT {"requests":31768,"duration_us":1003975,"p50_us":34,"p99_us":5948,"p999_us":10654,"errors":7}
"""
AB = """\
This is ApacheBench, Version 2.3 <$Revision$>

Concurrency Level:      2
Time taken for tests:   0.053 seconds
Complete requests:      50
Failed requests:        0
Total transferred:      9400 bytes
Requests per second:    939.34 [#/sec] (mean)
Time per request:       2.129 [ms] (mean)
"""
AB_TABLE = "Percentage served,Time in ms\n0,0.083\n50,0.120\n98,1.500\n99,1.750\n100,2.833\n"
OHA = """\
{"summary": {"total": 2.5},
 "latencyPercentiles": {"p50": 0.001, "p99": 0.002, "p99.9": 0.25},
 "statusCodeDistribution": {"200": 90, "204": 4, "503": 6}}
"""


class Wrk(unittest.TestCase):
    def test_the_line_of_results_is_read(self):
        self.assertEqual(wrk_figures(WRK), Figures(31768, 1.003975, 34, 5948, 10654, 7))

    def test_the_rate_is_requests_by_seconds(self):
        self.assertAlmostEqual(wrk_figures(WRK).rate, 31642.22, places=2)

    def test_output_without_results_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no line of results.*unable to connect"):
            wrk_figures("unable to connect to 127.0.0.1:8299 Connection refused\n")


class Ab(unittest.TestCase):
    def test_times_are_microseconds_and_the_longest_stands_for_p999(self):
        self.assertEqual(ab_figures(AB, AB_TABLE), Figures(50, 0.053, 120, 1750, 2833, 0))

    def test_failed_requests_and_other_statuses_are_errors(self):
        output = AB.replace(
            "Failed requests:        0", "Failed requests:        3\nNon-2xx responses:      12"
        )
        self.assertEqual(ab_figures(output, AB_TABLE).errors, 15)

    def test_output_without_a_number_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no 'Complete requests'"):
            ab_figures("apr_socket_recv: Connection refused (111)\n", AB_TABLE)


class Oha(unittest.TestCase):
    def test_times_are_microseconds_and_other_statuses_than_2xx_are_errors(self):
        self.assertEqual(oha_figures(OHA), Figures(100, 2.5, 1000, 2000, 250_000, 6))


if __name__ == "__main__":
    unittest.main()
