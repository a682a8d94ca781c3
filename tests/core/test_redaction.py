"""Nothing secret, personal or private survives redaction (cases G20, I10), and no text makes it slow."""

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aijobs.core.redaction import LIMIT, redact

KEYS = [
    "sk-demo-0123456789abcdef",
    "sk-ant-api03-AbCdEf_0123456789-xyz",
    "sk-proj-AAAA1111bbbb2222",
    "sk-demo************cdef",
    "sk_live_51Habcdefgh",
    "AIzaSyA0123456789abcdefghijklmnopqrstuv",
    "gsk_abcdefghijklmnop1234",
    "hf_AbCdEfGhIjKlMnOpQrSt",
    "ghp_0123456789abcdefghij0123456789abcdef",
    "github_pat_11ABCDEFG0abcdefghij_0123456789",
    "glpat-0123456789abcdefghij",
    "xoxb-1234567890-abcdefghij",
    "xai-0123456789abcdef",
    "pplx-0123456789abcdef",
    "nvapi-0123456789abcdef",
    "ya29.a0AfH6SMBexample",
    "AKIAIOSFODNN7EXAMPLE",
    "ASIAIOSFODNN7EXAMPLE",
    "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    "around", ["{}", "Incorrect key: {}.", '"{}"', "({})", "a={}&b=1", "\n{}\n", "关键词{}。"]
)
def test_a_vendors_key_goes_wherever_it_stands(key, around):
    text = redact(around.format(key))

    assert key[4:] not in text
    assert "[redacted]" in text


SECRET = "v3rySecretValue"


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {SECRET}",
        f"authorization: bearer {SECRET}",
        f'"Authorization": "Bearer {SECRET}"',
        f"Authorization: {SECRET}",
        f"Bearer {SECRET}",
        f"x-api-key: {SECRET}",
        f"X-Api-Key={SECRET}",
        f"api-key: {SECRET}",
        f"x-goog-api-key: {SECRET}",
        f"Incorrect API key provided: {SECRET}. You can find your key at ...",
        f"https://host/v1/models?key={SECRET}&alt=json",
        f"https://host/v1/models?alt=json&api_key={SECRET}",
        f"https://host/cb?code={SECRET}#x",
        f"https://b.s3.aws/x?X-Amz-Signature={SECRET}",
        f"https://host/?access_token={SECRET}",
        f"aws_secret_access_key = {SECRET}",
        f"client_secret={SECRET}",
        f'{{"password": "{SECRET}"}}',
        f'{{\\"api_key\\": \\"{SECRET}\\"}}',
        f"password='{SECRET} with spaces {SECRET}'",
        f'"secret":"{SECRET} {SECRET}"',
        f"Set-Cookie: session={SECRET}; Path=/",
        f"postgresql://aijobs:{SECRET}@db.internal:5432/jobs",
        f"could not connect to postgres+psycopg://u:p@ss/{SECRET}@host/db now",
        f"redis://:{SECRET}@host:6379/0",
        f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{SECRET}\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\nMIIE {SECRET}",
    ],
)
def test_a_secret_that_its_surroundings_give_away_goes(text):
    assert SECRET not in redact(text)


def test_basic_credentials_go_and_basic_words_stay():
    assert redact("Basic dXNlcjpwYXNz") == "Basic [redacted]"
    assert redact("a basic understanding") == "a basic understanding"


@pytest.mark.parametrize("address", ["ann@example.com", "ann.lee+x@mail.example.co.uk", "Ünal@exämple.de"])
def test_an_e_mail_address_goes(address):
    assert redact(f"user <{address}> is unknown") == "user <[e-mail]> is unknown"


@pytest.mark.parametrize("secret", ["hunter22", "p w/ß\"'&é", "line1\nline2"])
def test_a_known_secret_goes_in_all_its_spellings(secret):
    from urllib.parse import quote

    text = f"a {secret} b {quote(secret, safe='')} c {json.dumps(secret)} d"

    cleaned = redact(text, secrets=[secret, "", "abc"])

    assert cleaned.count("[redacted]") == 3
    assert secret.split("\n")[0] not in cleaned


def test_of_two_secrets_that_begin_alike_no_rest_stays():
    assert redact("x abcdefgh y abcd z", secrets=["abcd", "abcdefgh"]) == "x [redacted] y [redacted] z"


def test_an_input_at_the_very_end_goes_too():
    assert redact("bad: quick brown foxes", echo_of="the quick brown foxes") == "bad: [input]"


@pytest.mark.parametrize(
    "text",
    [
        "The model `gpt-x` does not exist or you do not have access to it.",
        "This model's maximum context length is 8192 tokens, you requested 9000 (max_tokens: 4096).",
        "Rate limit reached for requests per min (RPM): Limit 3, Used 3. Please try again in 20s.",
        "slow down",
        "请求过多，请稍后再试",
        "primary key pk_provider_trials is violated",
    ],
)
def test_an_ordinary_message_stays_as_it_is(text):
    assert redact(text) == text


# --- Echo of the input ------------------------------------------------------------------------------

PROMPT = (
    'Summarize for Dr. Müller:\n"The patient, born 1980-01-02, was seen in Łódź; '
    '病人姓名张三丰电话号码是一二三四五"'
)


@pytest.mark.parametrize(
    "echo",
    [
        PROMPT,
        json.dumps({"text": PROMPT}),
        json.dumps({"text": PROMPT}, ensure_ascii=False),
        json.dumps(json.dumps({"text": PROMPT})),
        repr(PROMPT),
        PROMPT.upper(),
        PROMPT.replace(" ", "  ").replace(",", ""),
        "\n> ".join(PROMPT.split("\n")),
    ],
)
@pytest.mark.parametrize(
    "source", [PROMPT, json.dumps({"a": 1, "text": PROMPT}), json.dumps({"t": PROMPT}, ensure_ascii=False)]
)
def test_the_input_does_not_come_back_in_any_spelling(echo, source):
    text = redact(f"Invalid prompt: {echo} is not allowed here", echo_of=source)

    for piece in ("patient", "1980", "müller", "summarize", "张三丰", "dź"):
        assert piece not in text.lower()
    assert text.startswith("Invalid promp")
    assert text.endswith("not allowed here")


def test_every_common_run_of_fifteen_letters_is_found():
    letters = random.Random(7)
    source = "".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=500))

    for start in range(len(source) - 15):
        piece = source[start : start + 15]
        assert piece not in redact(f"BAD 0 {piece} 0 END", echo_of=source)


def test_words_shared_by_chance_stay():
    text = "Invalid value for model: the prompt was refused"

    assert redact(text, echo_of="Is the model refused? No value.") == text


def test_a_short_input_goes_as_a_whole():
    assert redact("bad input 'Hi Bob!' given", echo_of="Hi Bob!") == "bad input '[input]!' given"
    assert redact("bad input 'x' given", echo_of="x") == "bad input 'x' given"
    assert redact("bad", echo_of="") == "bad"


# --- Bounds -----------------------------------------------------------------------------------------


def test_the_answer_is_one_harmless_line():
    assert redact("x\nINFO job 7 completed\x1b[2J\u202e\x00") == "x INFO job 7 completed\ufffd[2J\ufffd\ufffd"


@given(st.text(), st.lists(st.text(), max_size=3), st.none() | st.text())
def test_no_text_breaks_it_or_comes_back_longer_than_the_limit(text, secrets, source):
    cleaned = redact(text * 50, secrets=secrets, echo_of=source)

    assert len(cleaned.encode()) <= LIMIT
    cleaned.encode()


@given(
    st.sampled_from([*KEYS, "Authorization: Bearer abcdef", "a@b.cd", "password: hunter22", "x" * 300]),
    st.text(),
)
def test_redacting_twice_changes_nothing_more(key, text):
    once = redact(f"{text} {key} {text}")

    assert redact(once) == once


def test_a_key_at_the_edge_of_what_is_looked_at_leaves_no_half_behind():
    for length in range(32_730, 32_790, 2):
        filler = "k" * 199 + " "
        text = (filler * 200)[:length] + " sk-demo-0123456789abcdef"
        assert "0123" not in redact("a@b.cd " + text, limit=1_000_000)


def test_a_megabyte_of_keys_leaves_no_part_of_one():
    assert "0123" not in redact("sk-demo-0123456789abcdef" * 50_000)
    assert "0123" not in redact("sk-demo-0123456789abcdef," * 50_000, limit=1_000_000)


HOSTILE = [
    "a" * 32_000,
    "a@" * 16_000,
    "a." * 16_000,
    "a@" + "a." * 16_000,
    "\\" * 32_000,
    "\\u" * 16_000,
    "://" * 10_000,
    "x://u:" * 5_000,
    "-----BEGIN A KEY-----" * 1_500,
    "-----BEGIN " + "A" * 31_000,
    "api_key" * 4_500,
    "token=" * 5_000,
    'password="' * 3_000,
    "?key=" * 6_000,
    "bearer " * 4_500,
    "basic " + "a" * 31_000,
    "eyJaaaaaaaa" + "." * 20_000,
    "sk-" * 10_000,
    " " * 32_000,
    "=" * 32_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text[:12]!r}x{len(text)}")
def test_a_text_made_to_be_slow_is_not(text):
    # The guard is the test's own time limit: a quadratic pattern takes minutes over these, not seconds.
    for end in ("", " ", "!", "\x00"):
        assert len(redact((text + end) * 40, echo_of=(text + end) * 40).encode()) <= LIMIT
