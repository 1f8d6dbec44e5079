"""Operations, which do the work of requests that need more than a single store access.

Examples are submit, stop, delete, describe and the streams. The package may import `stores`, `db`
and `web` but never `api`.
"""
