"""Messages, requests, subscriptions and specifications as values."""
