"""The Message Viewer of the console: subscriptions over the wire whose messages are shown."""
