"""`seqrt check` and `seqrt schema`: a policy, and what one may declare, without a robot."""

from __future__ import annotations

import argparse
import json

from seqrt.commands.arguments import policy_arguments

CHECK = """\
Its load and warmup are called and its sample is acted out, as a worker does before it says ready.
Exit code 0: a worker would start with it. 1: it would not; each problem is printed with its remedy.
"""


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """What `seqrt check` takes."""
    parser.description = "Look a policy through offline: what it declares, how fast it infers, what is wrong."
    policy_arguments(parser)
    parser.set_defaults(command=_check)


def _check(options: argparse.Namespace) -> int:
    from seqrt.policies.checking import check

    report = check(options.policy, weights=options.weights)
    print(report)
    return 0 if report.ok else 1


def schema_arguments(parser: argparse.ArgumentParser) -> None:
    """What `seqrt schema` takes."""
    parser.description = "Print the JSON schema of every declaration, by name; Policy is the whole of one."
    parser.set_defaults(command=_schema)


def _schema(options: argparse.Namespace) -> int:
    from seqrt.policies.schema import schemas

    print(json.dumps(schemas(), indent=2))
    return 0
