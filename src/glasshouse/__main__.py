"""What `python -m glasshouse` does: the same as the command `glasshouse`."""

from __future__ import annotations

import sys

from glasshouse.cli import main

if __name__ == "__main__":
    sys.exit(main())
