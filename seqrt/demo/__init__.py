"""The PushT task, driven from pixels by a policy in another process: `seqrt demo`.

A picture and the agent's position stream to the worker; there `perception` finds the T, `planner` tries pushes in
copies of the `worlds` from the rows already committed, and `policy` answers with rows. Here `robot` is the task,
`episode` gathers what happened, `view`, `pictures` and `animation` show it, and `main` puts both sides together.

Needs the extra ``demo``.
"""
