"""The only part that knows Redis: one Lua script for each call, under the same name."""
