"""Every way to publish, every way to be notified, and what is lost between them."""

from mediation.matrix.dialects import DIALECTS, NOTIFIED, PUBLISHING, Dialect, Fetching
from mediation.matrix.publications import (
    Publication,
    read_publication,
    write_batch,
    write_publication,
)
from mediation.matrix.report import Loss, losses, lost_between
from mediation.model.facts import Fact

__all__ = [
    "DIALECTS",
    "NOTIFIED",
    "PUBLISHING",
    "Dialect",
    "Fact",
    "Fetching",
    "Loss",
    "Publication",
    "losses",
    "lost_between",
    "read_publication",
    "write_batch",
    "write_publication",
]
