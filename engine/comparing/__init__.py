"""Runs compared with a control: figures with what is noise, slowdowns, failures, mask sizes, saved views."""
