"""The drafts before WS-Notification 1.3, which differ in names, hardly in structure: 1.0 of IBM and
Globus, 1.2 of OASIS. `Draft` has what differs; `draft_specification` makes a Specification of it.
"""

from mediation.notification.drafts.draft import Draft
from mediation.notification.drafts.specification import draft_offers, draft_specification

__all__ = ["Draft", "draft_offers", "draft_specification"]
