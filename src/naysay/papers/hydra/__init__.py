"""Discovery as in Bleifuss, Kruse and Naumann: Efficient Denial Constraint Discovery with Hydra, PVLDB 11(3), 2017.

Sample pairs (`sampling`, section 4), invert the evidence to preliminary rules (`inversion`, section 5), find every
pair that breaks one of them (`completion`, section 6), invert again.
"""

from naysay.papers.hydra.method import find

__all__ = ["find"]
