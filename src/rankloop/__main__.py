"""`python -m rankloop`."""

import sys

from rankloop.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
