"""Who may call the service: keys, tokens, and a record of what they change."""
