"""Text for people: names, durations, sizes, times and terminal output."""
