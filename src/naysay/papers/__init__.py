"""The published methods, each behind the protocol of the feature that it serves.

Features load a paper by name (see `naysay.published`), so everything else works without this folder.
"""
