"""Compares two servers round by round.

A slow minute slows both servers. Their ratio within a round therefore says more than the ratio of two
medians.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf
from statistics import median

#: Maximum probability that the median of infinitely many rounds is outside of the reported bounds.
DOUBT = 0.05


@dataclass(frozen=True)
class Share:
    """A ratio of two servers: the median of the rounds, and bounds for the median of all possible rounds."""

    middle: float
    low: float
    high: float

    def __str__(self):
        bounds = f" ({self.low:.2f} to {self.high:.2f})" if self.high < inf else ""
        return f"{self.middle:.2f}{bounds}"

    def is_above_one(self) -> bool:
        return self.low > 1

    def is_below_one(self) -> bool:
        return self.high < 1


def share_of(ours: Sequence[float], theirs: Sequence[float]) -> Share:
    shares = sorted(our / their for our, their in zip(ours, theirs, strict=True))
    left_out = left_out_of(len(shares))
    if left_out is None:
        return Share(median(shares), 0, inf)
    return Share(median(shares), shares[left_out], shares[-1 - left_out])


def range_of(ours: Sequence[float], theirs: Sequence[float]) -> Share:
    """Returns the median share of the rounds, and the lowest and the highest."""
    shares = sorted(our / their for our, their in zip(ours, theirs, strict=True))
    return Share(median(shares), shares[0], shares[-1])


def left_out_of(rounds: int) -> int | None:
    """Returns the number of rounds at each end outside of the bounds. `None` for less than six rounds.

    A round is below the true median as often as above it. The number of rounds below it is therefore
    binomial. Source: Conover, Practical Nonparametric Statistics, section 3.2.
    """
    doubts = (2 * sum(comb(rounds, below) for below in range(most + 1)) / 2**rounds for most in range(rounds))
    small_enough = [most for most, doubt in enumerate(doubts) if doubt <= DOUBT]
    return small_enough[-1] if small_enough else None
