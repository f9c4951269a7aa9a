"""Runs beside a control: figures with what is noise, where a slowdown comes from, failures, mask sizes, saved views."""
