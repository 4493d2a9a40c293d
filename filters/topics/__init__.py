"""Topics, patterns of topics, and the index that finds the patterns a topic matches."""
