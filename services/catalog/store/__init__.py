"""The only place that knows catalog's database."""
