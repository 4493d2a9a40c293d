"""The process: composition, listeners, housekeeping, the data folder."""
