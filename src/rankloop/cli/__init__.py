"""The command line. Parsers are light: what a command needs is imported when it runs, so `--help` starts at once."""
