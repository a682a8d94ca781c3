"""Being a user without special rights for a moment: root may write everywhere."""

import contextlib
import os
import pwd
from collections.abc import Iterator


@contextlib.contextmanager
def ordinary_user() -> Iterator[None]:
    """Act as `nobody` when the tests run as root; otherwise change nothing."""
    if os.geteuid() != 0:
        yield
        return
    nobody = pwd.getpwnam("nobody")
    os.setegid(nobody.pw_gid)
    os.seteuid(nobody.pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
