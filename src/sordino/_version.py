"""The version of the package."""

__version__ = "0.10.0"
