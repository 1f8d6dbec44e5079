"""Arguments of SDK calls: checks of names, times, timeouts and scopes before a request."""
