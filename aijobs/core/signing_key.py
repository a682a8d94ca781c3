"""The secret that signs webhooks, as people paste it: base64 of 24 to 64 bytes, usually behind `whsec_`.

The form is that of the Standard Webhooks specification. Nothing is guessed: text that is not base64 is never
used as a key by itself, because then every delivery would fail with a signature that "does not match".
"""

import base64
import binascii

PREFIX = "whsec_"
_LEAST, _MOST = 24, 64


def decode_key(text: str) -> bytes:
    """The key's bytes. ValueError names what is wrong with *text*, without repeating it."""
    text = text.strip()
    if text.startswith("v1,"):
        raise ValueError("starts with 'v1,': that is how a signature is written, paste what follows it")
    body = text.removeprefix(PREFIX)
    if not body:
        raise ValueError("the signing secret is empty")
    try:
        key = base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(_not_base64(body)) from None
    if not _LEAST <= len(key) <= _MOST:
        bound = f"at least {_LEAST}" if len(key) < _LEAST else f"at most {_MOST}"
        raise ValueError(
            f"decodes to {len(key)} bytes, {bound} are needed: is it the secret of the endpoint?"
        )
    return key


def _not_base64(body: str) -> str:
    if body.isascii() and set(body) & set("-_") and not set(body) & set("+/"):
        return "not base64 but its URL-safe form: replace - by + and _ by /"
    return "not base64: paste the signing secret as the provider shows it (whsec_...)"
