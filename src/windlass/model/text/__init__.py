"""Text for people: names, durations, sizes, times, and text for a terminal."""
