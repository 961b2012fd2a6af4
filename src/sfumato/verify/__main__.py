"""``python -m sfumato.verify`` is this."""

import sys

from ._main import main

sys.exit(main())
