"""How the CLI ends when it does not do what was asked: one sentence, and a status that a script can switch on."""

REFUSED = 1  # a service said no, or a promise is broken
WRONG_USE = 2  # the command line itself; typer uses the same
UNREACHABLE = 3  # a service did not answer


class CliError(Exception):
    """The message is a sentence; `status` is the exit status; `details` are lines that follow it."""

    def __init__(self, message: str, status: int = WRONG_USE, details: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message, self.status, self.details = message, status, details
