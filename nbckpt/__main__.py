"""`python -m nbckpt` is the command `nbckpt`."""

import sys

from nbckpt.cli import main

sys.exit(main())
