"""WS-Notification, one module a version, and its profiles: ONVIF, WS-Messenger."""
