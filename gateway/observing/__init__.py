"""What operators see of the process: its log."""
