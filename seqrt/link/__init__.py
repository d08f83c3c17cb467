"""The way to a policy: one HTTP/2 connection to a worker, or an object in this process; every error is one of ours."""
