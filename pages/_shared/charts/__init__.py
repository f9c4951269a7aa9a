"""The chart kit: rows and a declaration become a figure with its hover, alt text and data, inside of a card."""
