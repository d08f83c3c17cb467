"""Drives a robot: the handle users hold, and the tasks of a run.

`policy.Policy` is the handle, `run` ties one run together out of `producer` (takes observations), `requester` (asks
for chunks), `actuator` (plays rows; alone calls act and hold) and `uplink` (brings observations to the worker). They
meet in three objects only: the plan of `seqrt.action`, the `moments` of observations, and the `control` that says
stop, pause and resume. `link` and `http` are the border to the worker.
"""
