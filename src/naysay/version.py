"""The version of naysay: the only place where it is written down, also for the package's metadata."""

__version__ = "0.2.0"
