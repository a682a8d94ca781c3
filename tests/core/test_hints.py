"""Every form in which a provider says when to come back, and every nonsense (cases B01, B02, B04)."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.hints import MOST, Hint, delay_hint, poll_hint, rate_headers
from aijobs.core.http_dates import parse_http_date

NOW = datetime(2026, 10, 21, 7, 27, 30, tzinfo=UTC)


def hint(*headers: tuple[str, str], body: object = None, message: str = "", throttled: bool = True) -> Hint:
    return delay_hint(headers, body, NOW, message=message, throttled=throttled)


def seconds(*headers: tuple[str, str], **also: object) -> float | None:
    delay = hint(*headers, **also).delay
    return None if delay is None else delay.total_seconds()


# --- Retry-After: a date (B01) ----------------------------------------------------------------------

DATES = [
    "Wed, 21 Oct 2026 07:28:00 GMT",
    "Wednesday, 21-Oct-26 07:28:00 GMT",
    "Wed Oct 21 07:28:00 2026",
    "wed, 21 oct 2026 07:28:00 gmt",
    "Wed, 21 Oct 2026 07:28:00 UTC",
    "Wed, 21 Oct 2026 07:28:00 -0000",
    "Wed, 21 Oct 2026 07:28:00 +0000",
    " Wed, 21 Oct 2026 07:28:00 GMT ",
]


@pytest.mark.parametrize("date", DATES)
def test_a_date_in_any_form_is_an_aware_instant_and_a_delay_from_now(date):
    assert parse_http_date(date, NOW) == datetime(2026, 10, 21, 7, 28, tzinfo=UTC)
    assert seconds(("Retry-After", date)) == 30


def test_a_date_counts_from_the_responses_own_date_where_the_clocks_differ():
    assert seconds(("Date", "Wed, 21 Oct 2026 07:20:00 GMT"), ("Retry-After", DATES[0])) == 480
    assert seconds(("Date", "soon"), ("Retry-After", DATES[0])) == 30


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)),
        ("Sunday, 06-Nov-94 08:49:37 GMT", datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)),
        ("Sun Nov  6 08:49:37 1994", datetime(1994, 11, 6, 8, 49, 37, tzinfo=UTC)),
        ("Monday, 01-Jan-76 00:00:00 GMT", datetime(2076, 1, 1, tzinfo=UTC)),
        ("Monday, 01-Jan-77 00:00:00 GMT", datetime(1977, 1, 1, tzinfo=UTC)),
        ("Thu, 31 Dec 2026 23:59:60 GMT", datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("Thu, 31 Feb 2026 00:00:00 GMT", None),
        ("Thu, 30 Foo 2026 00:00:00 GMT", None),
        ("Thu, 30 Oct 2026 25:00:00 GMT", None),
        ("Thu, 30 Oct 2026 00:00:00 CET", None),
        ("Thu, 30 Oct 2026 00:00:00", None),
        ("Thu, ٣٠ Oct 2026 00:00:00 GMT", None),
        ("2026-10-21T07:28:00Z", None),
        ("", None),
    ],
)
def test_a_date_is_read_by_the_standard_and_nothing_else_is_a_date(text, instant):
    assert parse_http_date(text, NOW) == instant


# --- Retry-After: seconds, and nonsense (B02) -------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "delay"),
    [("30", 30), (" 30 ", 30), ("\t30", 30), ("0", 0), ("007", 7), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)],
)
def test_a_delay_by_the_standard_is_taken(value, delay):
    given = hint(("Retry-After", value))

    assert given == Hint(delay=timedelta(seconds=delay), source="Retry-After")


@pytest.mark.parametrize(
    "value",
    [
        "30.5",
        "-5",
        "",
        "soon",
        "30s",
        "30, 60",
        "1_000",
        "٣",
        "３０",
        "1e3",
        "nan",
        "inf",
        "+30",
        "0x1e",
        "30;",
        "x" * 9999,
    ],
)
def test_nonsense_is_no_hint_and_leaves_a_note(value):
    given = hint(("Retry-After", value))

    assert given.delay is None
    assert given.source is None
    assert len(given.notes) == 1
    assert given.notes[0].startswith("retry-after ")
    assert len(given.notes[0]) < 100


def test_of_two_headers_the_larger_counts_and_nonsense_beside_it_does_not():
    assert seconds(("Retry-After", "30"), ("retry-after", "60")) == 60
    assert seconds(("Retry-After", "60"), ("Retry-After", "30")) == 60
    assert seconds(("Retry-After", "10"), ("Retry-After", DATES[0])) == 30
    given = hint(("Retry-After", "soon"), ("Retry-After", "30"))
    assert (given.delay, len(given.notes)) == (timedelta(seconds=30), 1)


def test_a_huge_delay_is_cut_to_a_month():
    assert hint(("Retry-After", "9" * 50)).delay == MOST
    assert hint(("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT")).delay == MOST
    assert hint(("x-ratelimit-reset", "999999999999999")).delay == MOST
    assert hint(("x-ratelimit-reset", "9999-12-31T23:59:59Z")).delay == MOST


def test_headers_may_be_a_mapping_too():
    assert delay_hint({"Retry-After": "7"}, None, NOW).delay == timedelta(seconds=7)


# --- Milliseconds (B04) -----------------------------------------------------------------------------


def test_the_explicit_family_goes_before_any_reset():
    resets = (("x-ratelimit-reset-requests", "6m0s"), ("x-ratelimit-reset-tokens", "1.2s"))

    given = hint(("retry-after-ms", "1500"), ("retry-after", "2"), *resets)

    assert given == Hint(delay=timedelta(milliseconds=1500), source="retry-after-ms")
    assert seconds(("retry-after", "2"), *resets) == 2


@pytest.mark.parametrize(("value", "delay"), [("1500", 1.5), ("12.5", 0.0125), (" 20 ", 0.02)])
def test_milliseconds_are_milliseconds(value, delay):
    assert seconds(("Retry-After-Ms", value)) == delay


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1e3", "1_0", "", "2s"])
def test_milliseconds_that_say_nothing_leave_the_word_to_retry_after(value):
    assert seconds(("retry-after-ms", value), ("retry-after", "2")) == 2
    assert seconds(("retry-after-ms", value)) is None


# --- Reset headers (B04) ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "delay"),
    [
        ("12ms", 0.012),
        ("1s", 1),
        ("6m0s", 360),
        ("1.2s", 1.2),
        ("1h2m3s", 3723),
        ("2m59.56s", 179.56),
        ("1s200ms", 1.2),
        ("500µs", 0.0005),
        ("500us", 0.0005),
        ("9000ns", 0.000009),
        ("1h", 3600),
        ("5", 5),
        ("0.5", 0.5),
        ("2026-10-21T07:28:00Z", 30),
        ("2026-10-21T09:28:00.5+02:00", 30.5),
        ("1792567680", 30),
        ("1792567680.5", 30.5),
        ("1792567680000", 30),
    ],
)
def test_a_reset_is_read_in_every_dialect(value, delay):
    assert seconds(("x-ratelimit-reset-requests", value)) == pytest.approx(delay, abs=1e-7)


@pytest.mark.parametrize(
    "value",
    [
        "0", "0s", "-1", "-5s", "", "s", "h", "1d", "1m2", "1 s", "soon", "nan", "2026-10-21",
        "2026-02-31T00:00:00Z", "1000000000", "1000000000000",
        "2026-10-21T07:27:29Z", "1792567649", "1h1h1h!", "٣s",
    ],
)  # fmt: skip
def test_a_reset_that_is_past_zero_or_nonsense_says_nothing(value):
    assert seconds(("x-ratelimit-reset-requests", value)) is None


def test_the_later_of_the_used_up_buckets_counts():
    def two(requests: str, tokens: str) -> float | None:
        return seconds(
            ("x-ratelimit-reset-requests", "6m0s"),
            ("x-ratelimit-remaining-requests", requests),
            ("x-ratelimit-reset-tokens", "1.2s"),
            ("x-ratelimit-remaining-tokens", tokens),
        )

    assert two("0", "0") == 360
    assert two("59", "0") == 1.2
    assert two("0", "100") == 360
    assert two("59", "100") == 360  # none is used up, and yet it was refused: the longest is safe
    assert two("-1", "0") == 1.2
    assert two("-1", "-1") is None


def test_buckets_without_a_remaining_count_by_the_longest():
    assert seconds(("x-ratelimit-reset-requests", "6m0s"), ("x-ratelimit-reset-tokens", "1.2s")) == 360
    assert hint(("x-ratelimit-reset-tokens", "1.2s")).source == "reset of tokens"


def test_azures_minus_one_and_zero_are_unknown():
    assert seconds(
        ("x-ratelimit-remaining-requests", "-1"),
        ("x-ratelimit-remaining-tokens", "-1"),
        ("x-ratelimit-reset-requests", "0"),
        ("x-ratelimit-reset-tokens", "0"),
    ) is None  # fmt: skip
    assert seconds(("x-ratelimit-remaining-requests", "-1"), ("x-ratelimit-reset-requests", "60")) is None


def test_anthropics_buckets_and_their_reset_before_the_date_header():
    date = ("Date", "Wed, 21 Oct 2026 12:41:00 GMT")
    headers = [
        ("anthropic-ratelimit-tokens-remaining", "0"),
        ("anthropic-ratelimit-tokens-reset", "2026-10-21T12:40:59Z"),
        ("anthropic-ratelimit-input-tokens-remaining", "0"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-10-21T12:41:07Z"),
    ]

    assert seconds(date, *headers) == 7
    assert seconds(date, *headers[:2]) is None
    assert seconds(("anthropic-ratelimit-unified-reset", "1792567680")) == 30


def test_openrouters_reset_in_milliseconds_and_a_proxys_prefix():
    assert seconds(("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "1792567680000")) == 30
    assert hint(("X-RateLimit-Reset", "9")).source == "reset of limit"
    assert seconds(("llm_provider-x-ratelimit-reset-tokens", "9s")) == 9
    assert seconds(("x-ratelimit-reset-tokens_usage_based", "9s")) == 9
    assert seconds(("ratelimit-reset", "9")) == 9


def test_resets_and_messages_say_nothing_where_no_limit_was_met():
    headers = (("x-ratelimit-reset-requests", "6m0s"), ("x-ratelimit-remaining-requests", "0"))

    assert seconds(*headers, throttled=False) is None
    assert seconds(message="try again in 20s", throttled=False) is None
    assert seconds(*headers, ("Retry-After", "3"), throttled=False) == 3


# --- Bodies -----------------------------------------------------------------------------------------

RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo"}


@pytest.mark.parametrize("delay", ["37s", "1.5s", "0.2s"])
@pytest.mark.parametrize("wrap", [lambda body: body, lambda body: [body]])
def test_googles_retry_info_is_read_also_in_its_list(delay, wrap):
    body = {"error": {"code": 429, "details": [{"@type": "x"}, None, {**RETRY_INFO, "retryDelay": delay}]}}

    given = hint(body=wrap(body))

    assert given == Hint(delay=timedelta(seconds=float(delay[:-1])), source="RetryInfo")


@pytest.mark.parametrize(
    ("error", "delay"),
    [
        ({"metadata": {"retry_after_seconds": 12}}, 12),
        ({"metadata": {"retry_after_seconds": 1.5}}, 1.5),
        ({"retry_after": 3}, 3),
        ({"resets_in_seconds": 90}, 90),
        ({"resets_at": 1792567680}, 30),
        ({"metadata": {"resets_at": "2026-10-21T07:28:00Z"}}, 30),
        ({"metadata": {"headers": {"Retry-After": "11"}}}, 11),
        ({"metadata": {"headers": {"X-RateLimit-Remaining": 0, "X-RateLimit-Reset": 1792567680000}}}, 30),
        ({"metadata": {"retry_after_seconds": None, "headers": None}}, None),
        ({"retry_after": "soon"}, None),
        ({"retry_after": True}, None),
        ({"retry_after": -1}, None),
        ({"retry_after": 0}, None),
        ({"retry_after": 0, "resets_in_seconds": 4}, 4),
        ({"retry_after": float("nan")}, None),
        ({"details": "none"}, None),
        ({"details": [{**RETRY_INFO, "retryDelay": {"seconds": 3}}]}, None),
        ({"details": [RETRY_INFO]}, None),
        ({"metadata": []}, None),
    ],
)
def test_a_body_may_say_when(error, delay):
    assert seconds(body={"error": error}) == delay
    assert seconds(body=error) == delay


@pytest.mark.parametrize(
    "body", [None, [], [[]], "x", 3, {"error": None}, {"error": []}, {"error": "x"}, [None]]
)
def test_no_body_breaks_it(body):
    assert hint(body=body) == Hint()


def test_a_header_goes_before_the_body_and_the_body_before_the_message():
    body = {"error": {"retry_after": 3}}

    assert seconds(("Retry-After", "2"), body=body, message="try again in 4s") == 2
    assert seconds(body=body, message="try again in 4s") == 3
    assert seconds(("x-ratelimit-reset", "5"), message="try again in 4s") == 4


# --- Messages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "delay"),
    [
        ("Rate limit reached. Please try again in 20s. Visit ...", 20),
        ("Please try again in 1.5s", 1.5),
        ("Please try again in 200ms.", 0.2),
        ("Please try again in 6m0s.", 360),
        ("Please try again in 1h2m3s, or", 3723),
        ("please TRY AGAIN IN 3 seconds", 3),
        ("Please retry after 37 seconds.", 37),
        ("Please retry in 37.5s.", 37.5),
        ("Try again in 1 second", 1),
        ("Try again in 2 sec", 2),
        ("Try again in 5 minutes", 300),
        ("Try again in 5 min.", 300),
        ("Try again in 2 hours", 7200),
        ("Try again in 1 day", 86400),
        ("Try again in 250 milliseconds", 0.25),
        ("Try again in 0s or try again in 9s", 9),
        ("try again in a moment", None),
        ("try again in 20", None),
        ("try again in 20 xyz", None),
        ("try again in -5s", None),
        ("try again in ٣s", None),
        ("", None),
        ("x" * 3000 + " try again in 20s", None),
    ],
)
def test_a_message_may_say_when(message, delay):
    assert seconds(message=message) == delay


def test_a_message_made_to_be_slow_is_not():
    for part in ("try again in ", "try again in 1", "1h", "try again in 1h", "retry in 9999999999"):
        hint(message=part * 100_000)


# --- Never raises, always in bounds -----------------------------------------------------------------

NAMES = st.sampled_from(
    ["retry-after", "retry-after-ms", "date", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(
        st.sampled_from(["error", "details", "metadata", "headers", "retry_after", "@type", "retryDelay"]),
        inner,
    ),
)  # fmt: skip


@given(st.lists(st.tuples(NAMES | st.text(), st.text())), JSON, st.text())
def test_whatever_comes_the_hint_is_none_or_within_bounds(headers, body, message):
    given = delay_hint(headers, body, NOW, message=message)

    assert given.delay is None or timedelta(0) <= given.delay <= MOST
    assert (given.delay is None) == (given.source is None)


# --- What is shown of the headers -------------------------------------------------------------------


def test_the_rate_headers_are_kept_by_bucket():
    headers = [
        ("X-RateLimit-Limit-Requests", "60"),
        ("x-ratelimit-remaining-requests", "59"),
        ("x-ratelimit-reset-requests", "1s"),
        ("anthropic-ratelimit-input-tokens-limit", "1000"),
        ("anthropic-ratelimit-input-tokens-reset", "2026-01-02T03:04:05Z"),
        ("x-ratelimit-remaining", "-1"),
        ("x-ratelimit-limit", "many"),
        ("content-type", "text/html"),
    ]

    assert rate_headers(headers) == {
        "requests": {"limit": 60, "remaining": 59, "reset": "1s"},
        "input-tokens": {"limit": 1000, "remaining": None, "reset": "2026-01-02T03:04:05Z"},
        "": {"limit": None, "remaining": None, "reset": None},
    }


def test_no_number_of_buckets_fills_the_store():
    headers = [(f"x-ratelimit-reset-b{n}", "\x1b[2J" * 500) for n in range(1000)]

    shown = rate_headers(headers)

    assert len(shown) == 12
    assert all(len(str(bucket["reset"]).encode()) <= 64 for bucket in shown.values())


def test_the_poll_hint_is_read_or_nothing():
    assert poll_hint([("OpenAI-Poll-After-Ms", "2500")]) == timedelta(seconds=2.5)
    assert poll_hint([("openai-poll-after-ms", "9" * 15)]) == MOST
    for value in ("0", "-1", "soon", ""):
        assert poll_hint([("openai-poll-after-ms", value)]) is None
    assert poll_hint([]) is None
