"""Commands for workspaces, projects and templates."""
