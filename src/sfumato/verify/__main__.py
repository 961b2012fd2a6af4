"""``python -m sfumato.verify`` is this."""

import sys

from .verifier import main

sys.exit(main())
