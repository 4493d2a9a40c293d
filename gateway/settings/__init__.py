"""The settings: where they come from, which is in force, what is wrong with them."""
