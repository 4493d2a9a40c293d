"""What Dragoman can do, measured as ratios to a bare baseline in the same run."""
