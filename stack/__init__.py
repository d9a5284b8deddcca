"""The embedded stack: the whole house on one machine, with no Docker and no root. See stack/README.md."""
