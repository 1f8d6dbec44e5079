"""The proof that a server knows its token, which clients require before they send the token."""

from __future__ import annotations

import hashlib
import hmac


def prove(token: str, challenge: str) -> str:
    """Return the response to a random challenge. The response does not reveal the token.

    >>> prove("hush", "1") == prove("hush", "1"), prove("hush", "1") == prove("hush", "2")
    (True, False)
    """
    return hmac.new(token.encode(), f"server:{challenge}".encode(), hashlib.sha256).hexdigest()
