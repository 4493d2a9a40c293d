"""``dragoman demo``."""

from gateway.cli.errors import CommandFailed


def demo() -> None:
    r"""Show mediation live: events cross from one specification to the other, both ways.

    Starts a gateway of its own (in memory, on a free port), a publisher and a subscriber of each
    specification, and prints what went over the wire. Takes a second or two, leaves nothing behind.

    \b
    Example:
      dragoman demo
    """
    # A whole gateway: imported when it is wanted, so that other commands start quickly.
    from gateway.cli.demonstration import demonstrate

    try:
        demonstrate()
    except TimeoutError as error:
        raise CommandFailed("the demonstration took too long, and was stopped") from error
