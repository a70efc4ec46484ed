"""How much memory states take, and how much they may take."""
