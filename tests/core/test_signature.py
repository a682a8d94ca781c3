"""Standard Webhooks against golden vectors, the two official libraries, and everything hostile."""

import base64
import itertools
from datetime import UTC, datetime, timedelta

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from aijobs.core.clock import seeded_chance
from aijobs.core.signature import Refusal, Refused, Verified, sign, verify
from aijobs.core.signing_key import decode_key

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
KEY = decode_key(SECRET)
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BODY = b'{"type":"response.completed","data":{"id":"resp_demo_1"}}'
GOLDEN = {
    "webhook-id": "msg_demo_0001",
    "webhook-timestamp": "1767225600",
    "webhook-signature": "v1,VWZ1SvS0GFwFlccpdL24UnsXuTf8YWJVUBRttaKuuYs=",
}
MAC = GOLDEN["webhook-signature"].removeprefix("v1,")


def check(headers, body=BODY, *, keys=(KEY,), now=NOW):
    return verify(headers, body, keys=keys, now=now)


def with_signature(value: str) -> dict[str, str]:
    return GOLDEN | {"webhook-signature": value}


def test_the_golden_vectors_are_accepted():
    second = verify(
        {
            "Webhook-Id": "wh_demo1",
            "WEBHOOK-TIMESTAMP": "1750287078",
            "webhook-signature": "v1,WFkhY9Fc80BgmJE80oTDsy1uCP2SlEL0xrwKt592c2c=",
        },
        b'{"object":"event","id":"evt_demo1","type":"response.completed","created_at":1750287018,'
        b'"data":{"id":"resp_demo1"}}',
        keys=[decode_key("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=")],
        now=datetime.fromtimestamp(1750287078, UTC),
    )

    assert check(GOLDEN) == Verified(delivery_id="msg_demo_0001", sent_at=NOW)
    assert isinstance(second, Verified)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1}',
        b'{"b":1,"a":2}',
        b'{"t":"\\u00e9"}',
        b'{"a":1}\r\n',
        b'{"a":1.0}\n',
        b"\xff\xfe not text",
        b"",
    ],
)
def test_what_is_signed_are_the_bytes(body):
    headers = sign("msg_1", body, keys=[KEY], now=NOW)

    assert isinstance(check(headers, body), Verified)
    for other in (body + b" ", body.replace(b":", b": "), body[:-1]):
        if other != body:
            assert check(headers, other).kind is Refusal.BAD_SIGNATURE


def test_what_we_sign_the_official_library_verifies_and_the_other_way_round():
    ours = sign("msg_2", BODY, keys=[KEY], now=datetime.now(UTC))
    theirs = Webhook(SECRET).sign("msg_3", datetime.now(UTC), BODY.decode())
    timestamp = str(int(datetime.now(UTC).timestamp()))

    Webhook(SECRET).verify(BODY, ours)
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(BODY + b" ", ours)
    headers = {"webhook-id": "msg_3", "webhook-timestamp": timestamp, "webhook-signature": theirs}
    assert isinstance(check(headers, now=datetime.now(UTC)), Verified)


@pytest.mark.parametrize(
    "signature",
    [
        f"v1,bad v1,{MAC}",
        f"v1a,x v1,{MAC}",
        f"foo v1,{MAC}",
        f"v1,é v1,{MAC}",
        f"v1,AAAA  v1,{MAC} ",
        "v1,A " * 40 + f"v1,{MAC}",
    ],
)
def test_a_good_signature_among_others_is_found(signature):
    assert isinstance(check(with_signature(signature)), Verified)


@pytest.mark.parametrize(
    "signature",
    [
        "", "v1,", "v1", "garbage", "v1,AAAA,v1,BBBB", "v1,é", MAC, f"v2,{MAC}", f"v1;{MAC}",
        f"v1,{MAC[:-1]}", f"V1,{MAC}", "v1,A " * 16_000, f"v1,{MAC}\x00", "v1," + "A" * 60_000,
    ],
)  # fmt: skip
def test_hostile_signatures_are_refused_and_never_raise(signature):
    answer = check(with_signature(signature))

    assert isinstance(answer, Refused)
    assert answer.kind is Refusal.BAD_SIGNATURE


@pytest.mark.parametrize("seconds", [-300, -299, 0, 299, 300])
def test_a_timestamp_within_the_tolerance_is_accepted_in_both_directions(seconds):
    headers = sign("msg", BODY, keys=[KEY], now=NOW + timedelta(seconds=seconds))

    assert isinstance(check(headers), Verified)


@pytest.mark.parametrize(("seconds", "side"), [(-301, "old"), (301, "future"), (-86400, "old")])
def test_a_right_signature_with_a_wrong_time_is_stale_and_points_at_the_clock(seconds, side):
    headers = sign("msg", BODY, keys=[KEY], now=NOW + timedelta(seconds=seconds))

    answer = check(headers)

    assert answer.kind is Refusal.STALE
    assert side in answer.reason
    assert "clock" in answer.reason


@pytest.mark.parametrize(
    "timestamp",
    [
        "abc",
        "",
        "nan",
        "-1",
        "1e9",
        "٣",
        "1767225600.0",
        "12345678901234567890",
        "+1767225600",
        "0x10",
        "1_7",
    ],
)
def test_a_timestamp_is_ascii_digits_only(timestamp):
    assert check(GOLDEN | {"webhook-timestamp": timestamp}).kind is Refusal.MALFORMED


def test_milliseconds_are_stale_at_most_and_only_when_signed_so():
    assert check(GOLDEN | {"webhook-timestamp": "1767225600000"}).kind is Refusal.MALFORMED


@pytest.mark.parametrize("missing", list(GOLDEN))
def test_each_header_is_needed(missing):
    headers = {name: value for name, value in GOLDEN.items() if name != missing}

    answer = check(headers)

    assert (answer.kind, missing in answer.reason) == (Refusal.MALFORMED, True)


@pytest.mark.parametrize("doubled", list(GOLDEN))
def test_a_header_given_twice_is_refused_so_that_nobody_chooses_which_counts(doubled):
    pairs = [(name.encode(), value.encode()) for name, value in GOLDEN.items()]
    pairs.append((doubled.upper().encode(), GOLDEN[doubled].encode()))

    assert check(pairs).kind is Refusal.MALFORMED


@pytest.mark.parametrize("delivery_id", ["", "a.b", "a b", "a\nb", "x" * 257, "a\x1b[2J", "é", "a\x00"])
def test_an_id_that_could_harm_a_log_or_a_key_is_refused_even_when_signed(delivery_id):
    headers = sign(delivery_id or "x", BODY, keys=[KEY], now=NOW) | {"webhook-id": delivery_id}

    assert check(headers).kind is Refusal.MALFORMED


def test_while_a_secret_is_rotated_both_are_accepted_and_afterwards_the_old_one_is_not():
    old, new = b"o" * 32, b"n" * 32
    by_old = sign("msg", BODY, keys=[old], now=NOW)
    by_both = sign("msg", BODY, keys=[old, new], now=NOW)

    assert isinstance(check(by_old, keys=(old, new)), Verified)
    assert isinstance(check(by_both, keys=(new,)), Verified)
    assert check(by_old, keys=(new,)).kind is Refusal.BAD_SIGNATURE
    assert check(by_old, keys=()).kind is Refusal.BAD_SIGNATURE


def test_no_input_of_any_kind_escapes_as_an_exception():
    chance = seeded_chance(7)
    alphabet = [b"v1,", b" ", b",", MAC.encode(), b"\xff", b"\x00", b".", b"1767225600", b"=", b"msg"]

    def noise() -> bytes:
        return b"".join(
            alphabet[chance.getrandbits(30) % len(alphabet)] for _ in range(chance.getrandbits(4))
        )

    for _ in range(20_000):
        pairs = [(name.encode(), noise()) for name in itertools.islice(GOLDEN, 3)]
        assert isinstance(check(pairs, noise()), Refused)


def test_base64_that_only_a_lenient_decoder_accepts_is_not_a_signature():
    sloppy = MAC[:10] + "\n" + MAC[10:]
    assert base64.b64decode(sloppy) == base64.b64decode(MAC)

    assert check(with_signature(f"v1,{sloppy}")).kind is Refusal.BAD_SIGNATURE
