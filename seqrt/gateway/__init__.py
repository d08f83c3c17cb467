"""A gateway before workers: the JSON face, keys and their budgets, connecting. Needs the ``serve`` extra."""

from __future__ import annotations
