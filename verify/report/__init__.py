"""The page that `python -m verify report` writes."""
