"""The only modules that know asyncpg."""
