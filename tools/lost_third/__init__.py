"""The lost third: what of a model's coverage an LP costs, and why, measured lane by lane on the same molecules."""
