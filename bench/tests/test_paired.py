"""The statistics of rounds: shares of the same round, and their bounds."""

import unittest
from math import inf

from lib.paired import Share, left_out_of, range_of, share_of


class Shares(unittest.TestCase):
    def test_a_share_compares_the_same_round(self):
        # The second round has high rates for both servers. The ratio of the two medians would be 3.
        self.assertEqual(range_of([2, 20, 6], [1, 10, 2]), Share(2, 2, 3))

    def test_fewer_than_six_rounds_have_no_bounds(self):
        share = share_of([2] * 5, [1] * 5)
        self.assertEqual(share, Share(2, 0, inf))
        self.assertFalse(share.is_above_one() or share.is_below_one())
        self.assertEqual(str(share), "2.00")

    def test_six_rounds_are_bounded_by_the_lowest_and_the_highest(self):
        share = share_of([6, 1, 2, 3, 4, 5], [1] * 6)
        self.assertEqual(share, Share(3.5, 1, 6))
        self.assertEqual(str(share), "3.50 (1.00 to 6.00)")

    def test_nine_rounds_leave_one_out_at_each_end(self):
        self.assertEqual(share_of([100, 2, 3, 4, 5, 6, 7, 8, 0.1], [1] * 9), Share(5, 2, 8))

    def test_a_share_is_above_or_below_one_only_with_both_bounds(self):
        self.assertTrue(Share(1.2, 1.01, 1.4).is_above_one())
        self.assertFalse(Share(1.2, 0.99, 1.4).is_above_one())
        self.assertTrue(Share(0.8, 0.7, 0.99).is_below_one())
        self.assertFalse(Share(0.8, 0.7, 1.01).is_below_one())

    def test_series_of_different_lengths_are_refused(self):
        with self.assertRaises(ValueError):
            share_of([1, 2], [1])


class LeftOut(unittest.TestCase):
    def test_the_numbers_are_those_of_the_sign_test_at_five_percent(self):
        # The expected values are two-sided critical values, as in tables of the sign test.
        table = {1: None, 5: None, 6: 0, 8: 0, 9: 1, 11: 1, 12: 2, 15: 3, 17: 4, 20: 5, 25: 7, 30: 9, 50: 17}
        self.assertEqual({rounds: left_out_of(rounds) for rounds in table}, table)


if __name__ == "__main__":
    unittest.main()
