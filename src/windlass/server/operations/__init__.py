"""Operations, which do the work of requests that need more than one read or write of one store.

Examples are submit, stop, delete, describe and the streams. The package may import `stores`, `db`
and `web`, never `api`.
"""
