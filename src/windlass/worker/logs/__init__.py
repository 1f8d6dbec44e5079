"""The log of an attempt: the pump that writes output to segments, and the reader of segments."""
