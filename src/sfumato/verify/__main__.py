"""``python -m sfumato.verify`` is this."""

import sys

from ._verifier import main

sys.exit(main())
