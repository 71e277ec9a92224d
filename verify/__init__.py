"""The program: `python -m verify` checks a published theory claim by claim and says how it knows."""
