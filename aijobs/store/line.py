"""How long the line of a type is, as an enqueue asks before it adds to it."""

from sqlalchemy import Connection, bindparam, func, select

from aijobs.store.tables import jobs

_c = jobs.c
_LINE = select(_c.turn).where(_c.type == bindparam("type"), _c.turn.is_not(None))
_BY_TURN = (_c.priority.desc(), _c.turn)  # or PostgreSQL may look for the first so many in the whole table
_LINE_OF_ALL = _LINE.order_by(*_BY_TURN).limit(bindparam("limit")).subquery()
_OF_USER = _LINE.where(_c.user == bindparam("user"))
_LINE_OF_USER = _OF_USER.order_by(*_BY_TURN).limit(bindparam("limit")).subquery()
_LENGTH = select(func.count()).select_from(_LINE_OF_ALL)
_LENGTH_FOR_USER = select(func.count()).select_from(_LINE_OF_USER)


def length(tx: Connection, type_name: str, user: str | None, most: int) -> int:
    """How many jobs of a type are in line, for one user or, with None, for all; counted up to *most*.

    At most so many index entries are read, so that a long line costs an enqueue no more than its cap.
    """
    values = {"type": type_name, "limit": most}
    if user is None:
        return int(tx.execute(_LENGTH, values).scalar_one())
    return int(tx.execute(_LENGTH_FOR_USER, values | {"user": user}).scalar_one())
