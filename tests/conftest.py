from __future__ import annotations

from hypothesis import settings

# The same examples on every machine and no deadline: a slow machine is no failure.
settings.register_profile("seqrt", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("seqrt")
