"""The session ledger of FABER runs: immutable events, and everything shown is folded from them."""

__version__ = "0.2.0"
