"""The only place that knows catalog's database."""

EXPECTED_SETTINGS = {
    "default_transaction_isolation": "read committed",
    "statement_timeout": "5s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
}
"""What the first migration set for the role; asserted at start."""
