"""How much of the time the arm moves, how late each row is, what a seam is like: ours and the peers'."""
