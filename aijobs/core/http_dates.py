"""Dates as HTTP writes them: the three forms of RFC 9110 section 5.6.7, always as aware instants."""

import re
from datetime import UTC, datetime, timedelta

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_ZONE = r"(?:GMT|UTC|[+-]0000)"
_FORMS = tuple(
    re.compile(form, re.IGNORECASE | re.ASCII)
    for form in (
        rf"[a-z]{{3}}, (?P<day>\d\d) (?P<month>[a-z]{{3}}) (?P<year>\d{{4}}) {_TIME} {_ZONE}",
        rf"[a-z]{{6,9}}, (?P<day>\d\d)-(?P<month>[a-z]{{3}})-(?P<year>\d\d) {_TIME} {_ZONE}",  # RFC 850
        rf"[a-z]{{3}} (?P<month>[a-z]{{3}}) (?P<day>[ \d]\d) {_TIME} (?P<year>\d{{4}})",  # asctime: GMT
    )
)


def parse_http_date(text: str, now: datetime) -> datetime | None:
    """The instant that *text* names, in any of the three forms; None if it is none of them.

    A year of two digits lies at most 50 years after *now*. A leap second is read as the second before it.
    """
    match = next(filter(None, (form.fullmatch(text.strip()) for form in _FORMS)), None)
    if match is None or match["month"].lower() not in _MONTHS:
        return None
    year = int(match["year"])
    if len(match["year"]) == 2:  # the century is missing
        year += now.year - now.year % 100
    try:
        date = datetime(
            year, _MONTHS.index(match["month"].lower()) + 1, int(match["day"]),
            int(match["hour"]), int(match["minute"]), min(int(match["second"]), 59), tzinfo=UTC,
        )  # fmt: skip
        far = len(match["year"]) == 2 and date > now + timedelta(days=50 * 365.25)
        return date.replace(year=year - 100) if far else date
    except ValueError:  # the 31st of February, or 25 o'clock
        return None
