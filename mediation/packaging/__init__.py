"""Envelopes with attachments: DIME, MIME, MTOM; and notifications as records."""
