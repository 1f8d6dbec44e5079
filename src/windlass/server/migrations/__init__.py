"""The steps that bring a database to what the code expects; `HEAD` names the newest."""

HEAD = "0001"
