"""The engines that match one message against all content expressions at once."""
