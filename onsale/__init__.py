"""A small on-sale against the running stack: fans join, wait, hold, pay and give up; then the promises are checked."""
