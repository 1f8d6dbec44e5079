"""Operations: the work of an endpoint beyond reading and writing one store.

Submit, stop, delete, describe, streams. May import `stores`, `db` and `web`, never `api`.
"""
