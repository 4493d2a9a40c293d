"""WS-BaseNotification 1.3 over WSRF 1.2, with ONVIF's event service as a profile: `SPECIFICATION`.

Its own requests are in `requests.py`; those of WSRF and of ONVIF are codecs of their own, which
another version of WS-Notification may combine in other ways.
"""

from mediation.notification.v1_3.actions import NOTIFY_ACTION
from mediation.notification.v1_3.specification import SPECIFICATION

__all__ = ["NOTIFY_ACTION", "SPECIFICATION"]
