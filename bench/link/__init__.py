"""What the link costs and what it makes of a network, beside the peers: ``python -m bench.link <part>``."""
