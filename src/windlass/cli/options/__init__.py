"""Options and arguments of commands: their types, their groups, and jobs made from them."""
