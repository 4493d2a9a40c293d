"""``python -m mediation.matrix`` prints the tables of ``docs/mediation.md``, and with ``profiles``
that of ``docs/profiles.md``."""

import sys

from mediation.matrix.tables import profiles, tables

print(profiles() if "profiles" in sys.argv[1:] else tables(), end="")
