"""Mailboxes: pull points, message boxes and MakeConnection queues, for consumers that fetch."""
