"""The webhook secret as people paste it: taken when it is meant, named when it is wrong."""

import base64

import pytest

from aijobs.core.signing_key import decode_key

KEY = bytes(range(32))
TEXT = base64.b64encode(KEY).decode()


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        f"whsec_{TEXT}",
        f"  whsec_{TEXT}",
        f"whsec_{TEXT}\n",
        TEXT.rstrip("="),
        f"whsec_{TEXT.rstrip('=')}",
    ],
)
def test_a_secret_is_taken_with_or_without_prefix_space_and_padding(text: str) -> None:
    assert decode_key(text) == KEY


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"v1,whsec_{TEXT}", "starts with 'v1,'"),
        ("my secret", "not base64"),
        ("whsec_", "empty"),
        ("", "empty"),
        (base64.b64encode(b"12345678").decode(), "decodes to 8 bytes, at least 24"),
        (base64.b64encode(bytes(65)).decode(), "decodes to 65 bytes, at most 64"),
        (base64.urlsafe_b64encode(b"\xff\xfe" * 16).decode(), "URL-safe"),
        ("whsec_ключ", "not base64"),
    ],
)
def test_what_is_no_secret_is_refused_by_name_and_not_repeated(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        decode_key(text)

    assert text.removeprefix("whsec_") not in str(refused.value) or len(text) < 8


@pytest.mark.parametrize("length", [24, 64])
def test_the_bounds_of_the_length_are_allowed(length: int) -> None:
    assert len(decode_key(base64.b64encode(bytes(length)).decode())) == length
