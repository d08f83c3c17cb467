"""What one worker carries: many robots against it, as `python -m bench.fleet` says."""
