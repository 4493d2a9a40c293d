"""WSRF, on which WS-Notification is built: properties, lifetime and faults of resources."""
