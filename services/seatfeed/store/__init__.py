"""The only place that knows Postgres and Redis."""
