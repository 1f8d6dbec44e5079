"""Compatibility of Windlass versions."""


def is_same_api(version: str, other: str) -> bool:
    """Return True if a client and a server of these versions use the same API.

    Releases are compatible if they differ only in the last number. Development versions promise
    nothing, so they must come from the same commit.

    >>> is_same_api("0.1.0", "0.1.3"), is_same_api("0.1.0", "0.2.0")
    (True, False)
    >>> is_same_api("0.1.0.dev7+g4b53e9d2f1", "0.1.0.dev8+g0da0061c3e")
    False
    """
    return _api_of(version) == _api_of(other)


def _api_of(version: str) -> list[str]:
    public, _, local = version.partition("+")
    # A shallow clone counts fewer commits, and a build adds local changes after the commit.
    return ["dev", local.partition(".")[0]] if ".dev" in public else public.split(".")[:2]
