"""Watch: the violations of rules under inserts, updates and deletes."""

from naysay.watch.change import Change, CurrentViolations
from naysay.watch.watch import Watch

__all__ = ["Change", "CurrentViolations", "Watch"]
