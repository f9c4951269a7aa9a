"""What the drift inspector asks of stored runs: tables of samples, drift, one sample whole, junk, what the LP did."""
