"""``python -m durably_conformance`` is ``durably-conformance``."""

import sys

from durably_conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
