"""Which LP to use: runs that may be compared, their figures, the rule, the reports' rule beside it, words, a probe."""
