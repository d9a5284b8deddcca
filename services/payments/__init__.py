"""Payments: what was asked of the processor, and what it answered."""
