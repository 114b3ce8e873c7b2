"""Suggest new values for cells that break rules, or abstain."""
