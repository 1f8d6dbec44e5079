"""Logs of an attempt: the pump from output to segments, and the reader of segments."""
