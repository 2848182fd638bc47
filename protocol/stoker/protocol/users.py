"""Names of the users of this host."""

import pwd


def user_name(number: int) -> str:
    """Return the name of a user; its number as text if it has none, as in some containers."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
