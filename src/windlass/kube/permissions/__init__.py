"""Required permissions, and checks of the permissions of an account."""
