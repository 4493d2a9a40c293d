"""What the ends of applications log to."""

import logging

log = logging.getLogger("dragoman.reliable")
log.addHandler(logging.NullHandler())
