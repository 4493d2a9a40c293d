"""The engines that match XPath filters: the compiled one, and the reference in plain Python."""
