"""Messages that are kept for consumers to fetch: WS-Messenger message boxes, WS-MakeConnection."""
