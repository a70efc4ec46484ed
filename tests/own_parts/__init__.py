"""Parts of policies as a user writes them: each in one file, with nothing changed elsewhere."""
