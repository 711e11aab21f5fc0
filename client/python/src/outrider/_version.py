"""The version of the package, which pyproject.toml and the user agent take from here."""

__version__ = "0.1.0"
