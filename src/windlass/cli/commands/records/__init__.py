"""Commands that compare, edit and delete records, and download their files."""
