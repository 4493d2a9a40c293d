"""``python -m mediation.matrix`` prints the tables of ``docs/mediation.md``."""

from mediation.matrix.tables import tables

print(tables(), end="")
