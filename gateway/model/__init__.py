"""The gateway's own values, which its rooms and its store share: nothing here does anything."""
