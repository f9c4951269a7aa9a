"""How many chips a tick of the stream's demo page brings."""

TICK = 25
