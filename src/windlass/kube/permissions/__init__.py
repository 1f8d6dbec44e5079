"""Lists the permissions that Windlass needs, and checks whether an account has them."""
