"""What becomes of a notification between its acceptance and the messaging system."""
