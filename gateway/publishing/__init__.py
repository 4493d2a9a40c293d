"""Publishing: the way of a notification from its acceptance to the messaging system."""
