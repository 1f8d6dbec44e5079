"""Runs shells in trials, with pseudo-terminals, input pipes and stored output."""
