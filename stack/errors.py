"""What can keep a stack from starting."""


class StackError(Exception):
    """The message is one sentence for a person: what is wrong, and the way on."""
