"""One HTML file that shows runs, samples or traces to somebody without Python, and without a net."""
