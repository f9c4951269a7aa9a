"""What the pages that look after entries of the store share: runs, traces and logit logs."""
