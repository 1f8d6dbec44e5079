"""The connection to a server: finding or starting it, requests, pages and streams of events."""
