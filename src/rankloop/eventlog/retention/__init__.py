"""How long a log is kept: restore a backup, archive old entries, bring an archive back."""
