"""The lag benchmark: success, smoothness and age against how late answers are. See ``python -m bench.lag --help``.

A simulated arm has to reach a moving goal around an obstacle, driven by a policy that answers late. What happens to
the answers on their way into the motors is `seqrt.action` itself; what is compared is how it is asked to do it.

    latency ──▶ worlds + policy ──▶ core (a tick loop around the real plan) ──▶ measures ──▶ tables, plots
"""
