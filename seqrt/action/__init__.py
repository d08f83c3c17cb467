"""Actions in time, pure: no clock, no task, no socket; numbers in, a decision out.

Declarations (`declaration`), rows out of an answer (`rows`), what may reach a motor (`guard`), chunks on the axis of
actions played (`chunk`, `plan`, `splice`), what their seams are like and how they may be eased (`seam`, `blend`,
`parts`), what is sent between two rows (`player`), when a tick is due (`schedule`), when to ask for the next chunk
(`latency`, `asking`) and what if it comes too late (`lagging`), what is sent when no row is due (`underrun`), how old
what the arm goes by may be (`staleness`, `first_step`), and the states of a run (`machine`). `seqrt.runtime` drives all
of it.
"""
