"""The options and arguments of commands, their types, and the code that builds jobs from them."""
