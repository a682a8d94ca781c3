"""Ids: UUID version 7, so that they sort by creation time and are never reused."""

from datetime import datetime
from uuid import UUID

from aijobs.core.clock import Chance


def new_id(now: datetime, chance: Chance) -> str:
    """A UUIDv7 (RFC 9562 section 5.7): 48 bits of milliseconds, then 74 random bits."""
    millis = int(now.timestamp() * 1000) & 0xFFFF_FFFF_FFFF
    rand = chance.getrandbits(74)
    value = millis << 80 | 0x7 << 76 | (rand >> 62) << 64 | 0b10 << 62 | rand & 0x3FFF_FFFF_FFFF_FFFF
    text = f"{value:032x}"  # as str(UUID(int=value)) has it, at a third of its time
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def lowest_id(at: datetime) -> str:
    """What is not above any id made at *at* or later, and above every one made a millisecond earlier."""
    millis = f"{int(at.timestamp() * 1000) & 0xFFFF_FFFF_FFFF:012x}"
    return f"{millis[:8]}-{millis[8:]}"


def is_id(text: str) -> bool:
    """Whether *text* is spelled as one of our ids (any UUID in canonical form)."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False
