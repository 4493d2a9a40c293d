"""Messages, subscriptions and specification versions as values."""
