"""Which versions of Windlass understand each other."""


def is_same_api(version: str, other: str) -> bool:
    """Whether a client and a server of these versions speak the same API.

    Releases do if they differ in the last number at most. Development versions promise nothing, so
    they must be of the same commit.

    >>> is_same_api("0.1.0", "0.1.3"), is_same_api("0.1.0", "0.2.0")
    (True, False)
    >>> is_same_api("0.1.0.dev7+g4b53e9d2f1", "0.1.0.dev8+g0da0061c3e")
    False
    """
    return _api_of(version) == _api_of(other)


def _api_of(version: str) -> list[str]:
    public, _, local = version.partition("+")
    # A shallow clone counts fewer commits, and a build names changes after its commit.
    return ["dev", local.partition(".")[0]] if ".dev" in public else public.split(".")[:2]
