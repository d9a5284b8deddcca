"""Faults strike a stack of their own."""

from tests.e2e.conftest import gateway, stack

__all__ = ["gateway", "stack"]
