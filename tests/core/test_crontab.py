"""Which spellings are accepted, and what is said about the others."""

import pytest

from aijobs.core.crontab import ALIASES, CrontabFault, parse

REFUSED = [
    # steps that are larger than what they step over: cron programs give three different answers
    ("*/90 * * * *", "every: 90m"),
    ("*/120 * * * *", "write 0 */2 * * *"),
    ("*/360 * * * *", "write 0 */6 * * *"),
    ("*/60 * * * 1-5", "write 0 * * * 1-5"),
    ("*/1440 * * * *", "write 0 0 * * *"),
    ("*/61 3 * * *", "write 0 in its place"),
    ("0 */25 * * *", "every: 25h"),
    ("0 */24 * * *", "write 0 in its place"),
    ("0 0 */32 * 1", "day of month: */32"),
    ("0 0 1 */13 *", "month: */13"),
    ("0 0 * * */8", "day of week: */8"),
    ("10-20/30 * * * *", "larger than the range"),
    ("*/99999999999999999999 * * * *", "larger than the field"),
    ("*/0 * * * *", "a step of 0"),
    ("5/15 * * * *", "write 5-59/15"),
    # ranges that run backwards
    ("0 9 * * FRI-MON", "write FRI-SAT,SUN-MON, that is 5,6,0,1"),
    ("0 9 * * SAT-SUN", "write SAT,SUN, that is 6,0"),
    ("0 9 * * MON-SUN", "every value is meant: write *"),
    ("0 9 * * 7-1", "write SUN-MON, that is 0,1"),
    ("0 22-2 * * *", "write 22-23,0-2, that is 22,23,0,1,2"),
    ("0 22-3/2 * * *", "write 22,0,2"),
    ("50-3 * * * *", "write 50-59,0-3, that is 50,51,52,53,54,55,56,57,58,59,0,1,2,3"),
    # the number of fields
    ("0 */5 * * * *", "seconds are not supported: if the first field is for seconds, write */5 * * * *"),
    ("0 0 0 1 1 * 2026", "seconds and years"),
    ("* * * *", "five fields expected"),
    ("", "empty"),
    (" \n", "empty"),
    ("0 9 * * *\n0 10 * * *", "10 found"),
    # what other programs add
    ("R R * * *", "another time on every reading"),
    ("H 2 * * *", "hashed"),
    ("H/15 * * * *", "hashed"),
    ("0~59 * * * *", "random"),
    ("0 0 ? * MON", "write *"),
    ("0 0 L * *", "the last"),
    ("0 0 LW * *", "the last weekday"),
    ("0 0 15W * *", "nearest weekday"),
    ("0 0 * * 1#5", "n-th weekday"),
    ("0 0 * * L5", "the last"),
    ("0 0 * * 5L", "the last"),
    ("@reboot", "one short run"),
    ("@every 5m", "every: 5m"),
    ("@DAILY", "lower case: @daily"),
    ("@dayly", "@daily"),
    ("@daily 5", "stands alone"),
    # values and names
    ("60 * * * *", "outside 0-59"),
    ("0 24 * * *", "midnight is 0"),
    ("0 0 0 * *", "outside 1-31"),
    ("0 0 1 13 *", "outside 1-12"),
    ("0 0 * * 8", "outside 0-7"),
    ("0 0 * * MONDAY", "write MON"),
    ("0 0 * FOO *", "JAN-DEC"),
    ("MON 0 * * *", "minute: MON"),
    ("-5 * * * *", "not understood"),
    ("1_0 * * * *", "not understood"),
    ("+5 * * * *", "not understood"),
    ("1.5 * * * *", "not understood"),
    ("1,,2 * * * *", "an empty item"),
    ("1, * * * *", "an empty item"),
    ("*,5 * * * *", "write * alone"),
    ("*5 * * * *", "not understood"),
    ("** * * * *", "not understood"),
    ("1-2-3 * * * *", "not understood"),
    ("1/2/3 * * * *", "not understood"),
    # characters
    ("0 9 * * * # nightly", "comment"),
    ("# 0 9 * *", "comment"),
    ("００ 9 * * *", "FULLWIDTH DIGIT ZERO"),
    ("٣ 9 * * *", "ARABIC-INDIC DIGIT THREE"),
    ("0\u00a09 * * *", "NO-BREAK SPACE"),
    ("0\u30009 * * *", "IDEOGRAPHIC SPACE"),
    ("0 9 * * *\x00", "control character"),
    ("0,1 " * 400, "longer than"),
    # dates that never come
    ("0 0 30 2 *", "FEB has no day 30"),
    ("0 0 31 2,4,6,9,11 *", "never comes"),
    ("0 0 30-31 2 */2", "never comes"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[repr(text)[:40] for text, _ in REFUSED])
def test_is_refused_with_the_reason(text: str, said: str) -> None:
    with pytest.raises(CrontabFault) as caught:
        parse(text)

    assert said in str(caught.value)


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(CrontabFault) as caught:
        parse("60,61 */25 0 FOO 8")

    assert [reason.split(":")[0] for reason in caught.value.reasons] == [
        "minute",
        "minute",
        "hour",
        "day of month",
        "month",
        "day of week",
    ]


@pytest.mark.parametrize(
    ("text", "field", "values"),
    [
        ("007 * * * *", "minutes", {7}),
        ("08 09 * * *", "hours", {9}),
        ("*/20 * * * *", "minutes", {0, 20, 40}),
        ("*/30,7 * * * *", "minutes", {0, 7, 30}),
        ("10-20/5 * * * *", "minutes", {10, 15, 20}),
        ("0 0 1 jan-Mar,DEC *", "months", {1, 2, 3, 12}),
        ("0 0 * * MON-FRI", "weekdays", {1, 2, 3, 4, 5}),
        ("0 0 * * 5-7", "weekdays", {0, 5, 6}),
        ("0 0 * * 0-7", "weekdays", {0, 1, 2, 3, 4, 5, 6}),
        ("0 0 * * 7-7", "weekdays", {0}),
        ("0 0 * * */2", "weekdays", {0, 2, 4, 6}),
        ("0 0 * * 1-7/3", "weekdays", {0, 1, 4}),
        ("0 0 */30 * *", "days", {1, 31}),
        ("0 0 30 2 1", "days", {30}),  # Mondays in February
        (f"{'0' * 50}5 * * * *", "minutes", {5}),
    ],
)
def test_reads_values(text: str, field: str, values: set[int]) -> None:
    assert set(getattr(parse(text), field)) == values


def test_every_alias_is_its_five_fields() -> None:
    for alias, text in ALIASES.items():
        assert parse(alias) == parse(text)


def test_white_space_of_any_kind_and_amount_separates() -> None:
    assert parse("\t0  9\n* *\r\n* \n") == parse("0 9 * * *")


@pytest.mark.parametrize(
    ("text", "fixed", "either"),
    [
        ("0 0 * * *", True, False),
        ("*/5 0 * * *", False, False),
        ("0 */2 * * *", False, False),
        ("0 0-23 * * *", True, False),
        ("0 0 1 * 1", True, True),
        ("0 0 */2 * 1", True, False),
        ("0 0 1 * */2", True, False),
        ("0 0 1-31 * 1", True, True),
    ],
)
def test_a_leading_star_decides_about_clock_changes_and_days(text: str, fixed: bool, either: bool) -> None:
    crontab = parse(text)

    assert (crontab.fixed, crontab.either_day) == (fixed, either)
