"""The goals of the report: the rows that they compare, and the condition that meets them."""

import unittest
from types import SimpleNamespace

from lib import goals
from lib.case import Row, Turn
from lib.goals import CPU, NGINX, PLAIN, RATE, WRITTEN, Goal
from lib.load import Figures
from lib.paired import Share


def row(name: str, *turns: tuple[int, float], load: str = PLAIN) -> Row:
    """Returns a row of requests per second and processor time per request, in rounds of a second."""
    server = SimpleNamespace(name=name)
    return Row(load, server, [Turn(Figures(rate, 1, 0, 0, 0, 0), cpu_us) for rate, cpu_us in turns])


class Rows(unittest.TestCase):
    def test_a_row_has_medians_and_half_of_its_range_as_spread(self):
        found = row(WRITTEN, (90, 3), (100, 1), (120, 2))
        self.assertEqual((found.rate, found.cpu_us, found.spread), (100, 2, 0.15))


class Goals(unittest.TestCase):
    def test_a_goal_compares_two_servers_under_its_load(self):
        rows = [
            row(WRITTEN, (100, 2), (300, 4)),
            row(NGINX, (50, 4), (100, 4)),
            row(NGINX, (1, 1), (1, 1), load="another"),
        ]
        self.assertEqual(Goal(WRITTEN, PLAIN, RATE, 1, NGINX).share(rows), Share(2.5, 2, 3))
        self.assertEqual(Goal(WRITTEN, PLAIN, CPU, 1, NGINX).share(rows), Share(0.75, 0.5, 1))

    def test_a_goal_without_both_servers_has_no_share(self):
        self.assertIsNone(Goal(WRITTEN, PLAIN, RATE, 1, NGINX).share([row(WRITTEN, (1, 1))]))

    def test_a_goal_of_rates_is_met_by_the_highest_round(self):
        goal = Goal(WRITTEN, PLAIN, RATE, 0.95, NGINX)
        self.assertTrue(goal.is_met(Share(0.9, 0.8, 0.95)))
        self.assertFalse(goal.is_met(Share(0.9, 0.8, 0.94)))

    def test_a_goal_of_processor_time_is_met_by_the_lowest_round(self):
        goal = Goal(WRITTEN, PLAIN, CPU, 1.5, NGINX)
        self.assertTrue(goal.is_met(Share(1.6, 1.5, 1.7)))
        self.assertFalse(goal.is_met(Share(1.6, 1.51, 1.7)))

    def test_the_section_lists_goals_that_have_both_rows(self):
        rows = [row(WRITTEN, (100, 2)), row(NGINX, (200, 1))]
        lines = goals.section({"recorded": (None, rows)}).splitlines()
        self.assertEqual(lines[0], "## Goals")
        self.assertIn(
            f"| {WRITTEN}, {PLAIN} | requests/s | {NGINX} | at least 0.95 | 0.50 (0.50 to 0.50) | **missed** |",
            lines,
        )
        self.assertIn(
            f"| {WRITTEN}, {PLAIN} | CPU per request | {NGINX} | at most 1 | 2.00 (2.00 to 2.00) | **missed** |",
            lines,
        )
        self.assertEqual(len(lines), 6)

    def test_a_run_without_the_case_has_no_section(self):
        self.assertEqual(goals.section({}), "")


if __name__ == "__main__":
    unittest.main()
