"""The proof that a server knows its token. A client requires it before it sends the token."""

from __future__ import annotations

import hashlib
import hmac


def prove(token: str, challenge: str) -> str:
    """Return the answer to a random challenge. The answer does not reveal any token.

    >>> prove("hush", "1") == prove("hush", "1"), prove("hush", "1") == prove("hush", "2")
    (True, False)
    """
    return hmac.new(token.encode(), f"server:{challenge}".encode(), hashlib.sha256).hexdigest()
