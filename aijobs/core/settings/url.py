"""The password inside a database URL: found, and hidden."""

import re

from aijobs.core.settings.fields import MASK

_PASSWORD = re.compile(r"(?P<before>^[^:/?#]+://[^:/@]*:)(?P<password>.*)(?=@)", re.DOTALL)
_IN_QUERY = re.compile(r"(?P<before>[?&](?:password|sslpassword)=)(?P<password>[^&#]*)")


def database_password(url: str) -> str | None:
    """The password in *url* as it is spelled there, or None."""
    match = _PASSWORD.search(url) or _IN_QUERY.search(url)
    return match["password"] or None if match else None


def hide_password(url: str) -> str:
    """*url* as it may be shown."""
    return _IN_QUERY.sub(rf"\g<before>{MASK}", _PASSWORD.sub(rf"\g<before>{MASK}", url))
