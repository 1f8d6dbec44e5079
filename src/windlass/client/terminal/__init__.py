"""Terminal output while a client waits, and the attachment of terminals to shells."""
