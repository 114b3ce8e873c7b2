"""What a pipeline is made of, and what its run may spend."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from naysay.errors import ResourceError
from naysay.papers.facet.predicates import Refinable

MAX_WORDS = 1 << 34
# BHSM is stable between 100 and 1,000 bins (section 6.2).
N_BINS = 500


class Operator(Enum):
    """The refinement algorithms of section 5; KEEP applies the filters of single rows."""

    KEEP = "keep"
    EQUAL = "equality"
    DIFFERS = "non-equality"
    HSM = "HSM"
    BHSM = "BHSM"
    IEJOIN = "IEJoin"


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """One step of a pipeline: an operator and its predicate; IEJoin has two."""

    operator: Operator
    predicates: tuple[Refinable, ...]
    build_right: bool = False


@dataclass(slots=True)
class Work:
    """What a run may spend: 64-bit words of intermediate row sets, over all of it.

    A pipeline takes one pair of sets at a time through all its stages, so that it never holds more than a few times
    the table; the limit bounds how much it makes in all, which is quadratic where sets overlap.
    """

    limit: int = MAX_WORDS
    n_bins: int = N_BINS
    spent: int = 0

    @property
    def left(self) -> int:
        return self.limit - self.spent

    def spend(self, n_words: int) -> None:
        self.spent += n_words
        if self.spent > self.limit:
            raise ResourceError(
                f"FACET would need {self.spent:,} words and more for intermediate row sets, "
                f"and the limit is {self.limit:,}: use strategy 'auto', which forms none, or raise the limit"
            )
