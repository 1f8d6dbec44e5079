"""The steps that bring a database to what the code expects; `HEAD` names the newest.

Their names are numbers of four digits, so that a later one is told from its name.
"""

HEAD = "0010"
