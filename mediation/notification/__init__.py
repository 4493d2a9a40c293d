"""WS-Notification, a module for each version, and its profiles: ONVIF's services."""
