"""The newest published `sequence-ai`: a gateway connects it, and it drives the worker it was given directly."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversing import Client, Raised
from places import KEY, MODEL, OF_ANOTHER_MODEL, OF_ONE_ACT, Places, one_port

import seqrt
from seqrt.observation.codecs import encode_picture
from seqrt.policies.limits import HostLimits
from seqrt.worker import self_signed

Robots = Callable[[], Client]
Serve = Callable[..., AbstractContextManager[Places]]


class Reads:
    """Undeclared: tells which observation it was handed."""

    def infer(self, obs: Any) -> Any:
        return {"read": obs["x"]}


def sees(*xs: int) -> list[dict[str, int]]:
    return [{"x": x} for x in xs]


def connected(robots: Robots, url: str, **given: Any) -> Client:
    robot = robots()
    robot("connect", **{"model": MODEL, "api_key": KEY, "base_url": url, **given})
    return robot


def test_observations_are_streamed_and_acts_carry_nothing(robots: Robots, serve: Serve) -> None:
    with serve(Reads()) as there:
        robot = connected(robots, there.url)
        assert robot("observe", observations=sees(0, 1, 2)) == [0, 1, 2]
        assert robot("act") == {"read": 2}
        assert robot("observe", observations=sees(3)) == [3]
        assert robot("act") == {"read": 3}
        assert robot("act") == {"read": 3}
        assert there.at_gateway.count("/v1/act/connect") == 1
        assert there.at_worker.count("/act") == 3
        assert {passed.http for passed in there.at_worker.passed if passed.path in ("/act", "/observe")} == {"1.1"}


def test_an_act_before_any_observation_is_refused_and_the_next_one_is_served(robots: Robots, serve: Serve) -> None:
    with serve(Reads()) as there:
        robot = connected(robots, there.url)
        with pytest.raises(Raised, match="at least 1") as refused:
            robot("act")
        assert (refused.value.kind, refused.value.told["status"]) == ("InvalidRequest", 400)
        robot("observe", observations=sees(0))
        assert robot("act") == {"read": 0}


def test_what_a_policy_declares_of_windows_and_cameras_is_what_it_reads(robots: Robots, serve: Serve) -> None:
    camera = seqrt.Camera(width=8, height=6, codec="jpeg")
    read: list[Any] = []

    @seqrt.policy(
        observations=seqrt.Observations(
            streams={
                "wrist": seqrt.Stream(at=[-2, 0], camera=camera),
                "front": seqrt.Stream(camera=camera),
                "state": seqrt.Stream(shape=[2], dtype="float32"),
                "force": seqrt.Stream(every=1),
            }
        ),
        actions=seqrt.Actions(key="actions", hz=10),
    )
    class Windowed:
        def infer(self, obs: Any) -> Any:
            read.append(obs)
            return {"actions": [obs["observations"][-1]["state"]]}

    def seen(x: int) -> dict[str, Any]:
        picture = encode_picture(np.full((6, 8, 3), 10 * x, np.uint8), "jpeg")
        text = base64.b64encode(picture).decode()
        return {"wrist": {"base64": text}, "front": text, "state": [x, -x], "force": [x]}

    with serve(Windowed()) as there:
        robot = connected(robots, there.url)
        robot("observe", observations=[seen(x) for x in range(4)])
        assert robot("act") == {"actions": [[3.0, -3.0]]}
        robot("observe", observations=[seen(x) for x in range(4, 6)])
        assert robot("act") == {"actions": [[5.0, -5.0]]}
    first, second = read
    assert (first["steps"], second["steps"]) == ([0, 1, 2, 3], [3, 4, 5])
    assert [sorted(entry) for entry in second["observations"]] == [
        ["wrist"],
        ["force"],
        ["force", "front", "state", "wrist"],
    ]
    wrist, front = (second["observations"][-1][view] for view in ("wrist", "front"))
    assert (wrist.shape, wrist.dtype, round(float(wrist.mean()))) == ((6, 8, 3), np.uint8, 50)
    assert (front == wrist).all()


def test_what_was_lost_on_its_way_is_sent_again_and_the_act_with_it_under_its_own_id(
    robots: Robots, serve: Serve
) -> None:
    with serve(Reads(), limits=HostLimits(stream_wait_s=0.05)) as there:
        there.at_worker.hold("/observe", until=there.at_worker.once("/act", 409))
        robot = connected(robots, there.url)
        robot("observe", observations=sees(0, 1, 2))
        assert robot("act") == {"read": 2}
        assert any("sent again" in warning for warning in robot.warned)
        acts = [(passed.status, passed.request_id) for passed in there.at_worker.passed if passed.path == "/act"]
        assert [status for status, _ in acts] == [409, 200]
        assert len({request_id for _, request_id in acts}) == 1


def test_observations_over_the_limit_are_left_out_and_the_act_reads_the_newest_that_was_kept(
    robots: Robots, serve: Serve
) -> None:
    with serve(Reads(), limits=HostLimits(frames=4)) as there:
        robot = connected(robots, there.url)
        robot("observe", observations=sees(0))
        assert robot("act") == {"read": 0}
        for x in range(1, 5):
            robot("observe", observations=sees(x))
            there.at_worker.wait("/observe", x + 1)
        robot("observe", observations=sees(5))
        there.at_worker.wait("/observe", 1, status=413)
        there.at_worker.wait("/observe", 6)  # its number, as one that never comes
        assert robot("act") == {"read": 4}
        assert any("left out" in warning for warning in robot.warned)
        robot("observe", observations=sees(6))
        assert robot("act") == {"read": 6}
        assert there.at_worker.count("/observe", 413) == 1


def test_a_worker_that_is_busy_with_another_robot_is_asked_until_it_has_room(robots: Robots, serve: Serve) -> None:
    running, refused = threading.Event(), threading.Event()

    class Slow:
        def infer(self, obs: Any) -> Any:
            running.set()
            assert refused.wait(60)
            return {"read": obs["x"]}

    with serve(Slow(), limits=HostLimits(acts=1)) as there:
        there.at_worker.once("/act", 429, refused)
        one, other = connected(robots, there.url), connected(robots, there.url)
        for robot, x in ((one, 1), (other, 2)):
            robot("observe", observations=sees(x))
        one.ask("act")
        assert running.wait(60)
        assert other("act") == {"read": 2}
        assert one.answer() == {"read": 1}
        assert there.at_worker.count("/act", 429) >= 1


def test_an_act_that_takes_longer_than_the_robot_waits_is_told_as_running_and_runs_once(
    robots: Robots, serve: Serve
) -> None:
    over, calls = threading.Event(), list[int]()

    class Slow:
        def infer(self, obs: Any) -> Any:
            calls.append(obs["x"])
            assert over.wait(60)
            return {"read": obs["x"]}

    with serve(Slow()) as there:
        robot = connected(robots, there.url, timeout_s=3)
        robot("observe", observations=sees(1))
        with pytest.raises(Raised) as late:
            robot("act")
        over.set()
        assert late.value.told["details"]["reason"] == "act_still_running"
        robot("observe", observations=sees(2))
        assert robot("act") == {"read": 2}
    assert calls == [1, 2]


def test_a_worker_that_was_restarted_is_connected_to_again_and_the_robot_goes_on(robots: Robots, serve: Serve) -> None:
    with serve(Reads()) as there:
        robot = connected(robots, there.url)
        robot("observe", observations=sees(0, 1))
        assert robot("act") == {"read": 1}
        there.stop()
        there.start()
        # The client begins a new episode at a worker that lost the old one, with nothing observed in it yet.
        with pytest.raises(Raised, match="at least 1"):
            robot("act")
        assert any("reset after a reconnect" in warning for warning in robot.warned)
        robot("observe", observations=sees(2))
        assert robot("act") == {"read": 2}
        assert there.at_gateway.count("/v1/act/connect") == 2


def test_a_worker_that_is_away_is_told_and_gone_to_again_once_it_is_back(robots: Robots, serve: Serve) -> None:
    with serve(Reads()) as there:
        robot = connected(robots, there.url)
        robot("observe", observations=sees(0))
        assert robot("act") == {"read": 0}
        there.stop()
        with pytest.raises(Raised) as away:
            robot("act")
        assert (away.value.kind, away.value.told["status"], away.value.told["retryable"]) == ("Unavailable", 503, True)
        there.start()
        robot("observe", observations=sees(1))
        assert robot("act") == {"read": 1}


def test_a_lease_is_renewed_while_the_episode_goes_on(robots: Robots, serve: Serve) -> None:
    with serve(Reads(), told_ttl_s=1.0) as there:
        robot = connected(robots, there.url)
        for x in range(3):
            assert robot("observe", observations=sees(x)) == [x]
            assert robot("act") == {"read": x}
            assert robot.warned == []
        assert there.at_gateway.count("/v1/act/connect") >= 4  # once, and again before each act
        assert there.at_worker.count("/act", 401) == 0


def test_an_episode_that_ends_takes_its_state_and_its_numbers_with_it(robots: Robots, serve: Serve) -> None:
    @seqrt.policy(episodes="shared")
    class Counts:
        def infer(self, obs: Any, *, episode: Any) -> Any:
            episode.state["acts"] = episode.state.get("acts", 0) + 1
            return [obs["x"], episode.state["acts"]]

    with serve(Counts()) as there:
        robot = connected(robots, there.url)
        for acts in (1, 2):
            robot("observe", observations=sees(0))
            assert robot("act") == [0, acts]
        assert there.host.statistics()["episodes"] == 1
        robot("end_episode")
        assert there.host.statistics()["episodes"] == 0
        assert robot("observe", observations=sees(7)) == [0]
        assert robot("act") == [7, 1]


def test_a_robot_waits_in_line_for_the_place_that_another_gives_back(robots: Robots, serve: Serve) -> None:
    with serve(Reads(), limits=HostLimits(episodes=1)) as there:
        one, other = connected(robots, there.url), connected(robots, there.url)
        one("observe", observations=sees(1))
        in_line = there.at_gateway.once("/v1/act/connect", 503)
        other.ask("observe", observations=sees(2))
        assert in_line.wait(60)
        one("close")
        assert other.answer() == [0]
        assert any("position 1" in warning for warning in other.warned)
        assert other("act") == {"read": 2}


def test_a_worker_that_loads_is_waited_for(robots: Robots, serve: Serve) -> None:
    asked = threading.Event()

    class Loads(Reads):
        def load(self) -> None:
            assert asked.wait(60)

    with serve(Loads(), loaded=False) as there:
        there.at_gateway.once("/v1/act/connect", 503, asked)
        robot = connected(robots, there.url)
        robot("observe", observations=sees(1))
        assert any("warming up" in warning for warning in robot.warned)
        assert robot("act") == {"read": 1}


class OutOfReach(Exception):
    """A policy's own exception."""


@pytest.mark.parametrize(
    ("raised", "kind", "kept"),
    [(ValueError("wrist"), "ValueError", None), (OutOfReach("wrist"), "PolicyError", "OutOfReach")],
)
def test_what_a_policy_raises_reaches_the_robots_program(
    robots: Robots, serve: Serve, raised: Exception, kind: str, kept: str | None
) -> None:
    class Fails:
        def infer(self, obs: Any) -> Any:
            raise raised

    with serve(Fails()) as there:
        robot = connected(robots, there.url)
        robot("observe", observations=sees(1))
        with pytest.raises(Raised, match="wrist") as failed:
            robot("act")
        assert failed.value.kind == kind
        assert failed.value.told.get("exception_type") == kept
        assert "in infer" in failed.value.told["remote_traceback"]


@pytest.mark.parametrize(
    ("given", "kind", "status"),
    [
        ({"api_key": "seq_nobodys"}, "AuthError", 401),
        ({"model": "no-such"}, "NotFound", 404),
        ({"api_key": OF_ANOTHER_MODEL}, "PermissionDenied", 403),
        ({"api_key": OF_ONE_ACT}, "PermissionDenied", 403),  # nobody would count its acts at the worker
    ],
)
def test_who_connects_and_to_what_is_told_apart(
    robots: Robots, serve: Serve, given: dict[str, str], kind: str, status: int
) -> None:
    with serve(Reads()) as there:
        robot = connected(robots, there.url, **given)
        with pytest.raises(Raised) as refused:
            robot("observe", observations=sees(1))
        assert (refused.value.kind, refused.value.told["status"]) == (kind, status)
        assert there.at_worker.count("/observe") == 0


def test_key_and_address_are_found_in_the_environment(robots: Robots, serve: Serve) -> None:
    with serve(Reads()) as there:
        robot = robots()
        robot("connect", model=MODEL, environment={"SEQUENCES_API_KEY": KEY, "SEQUENCES_BASE_URL": there.url})
        robot("ready")
        robot("observe", observations=sees(1))
        assert robot("act", seed=3) == {"read": 1}


def test_a_gateway_and_its_worker_on_one_port_are_reached_by_a_certificate_the_robot_trusts(
    robots: Robots, tmp_path: Path
) -> None:
    made = self_signed(tmp_path / "tls")

    @seqrt.policy(name=MODEL)
    class Named(Reads):
        pass

    with one_port(Named(), folder=tmp_path, tls=made) as url:
        assert url.startswith("https://")
        robot = connected(robots, url, environment={"SSL_CERT_FILE": str(made.path)})
        robot("observe", observations=sees(1))
        assert robot("act") == {"read": 1}


def test_a_worker_without_tls_is_refused_by_the_client(robots: Robots, tmp_path: Path) -> None:
    @seqrt.policy(name=MODEL)
    class Named(Reads):
        pass

    with (
        one_port(Named(), folder=tmp_path) as url,
        pytest.raises(Raised, match="no cert fingerprint to pin") as refused,
    ):
        connected(robots, url)("observe", observations=sees(1))
    assert refused.value.kind == "CertPinError"


@pytest.mark.long  # numpy alone is larger than the client and all it needs
def test_arrays_travel_as_arrays_both_ways(newest_python_with_numpy: Path, serve: Serve, tmp_path: Path) -> None:
    read: list[Any] = []

    class Doubles:
        def infer(self, obs: Any) -> Any:
            read.append(obs["x"])
            return {"twice": 2 * obs["x"], "name": "x"}

    with serve(Doubles()) as there, Client(newest_python_with_numpy, "newest.py", tmp_path) as robot:
        robot("connect", model=MODEL, api_key=KEY, base_url=there.url)
        robot("observe_arrays", observations=[{"x": [[1, 2], [3, 4]]}], dtype="int16")
        assert robot("act_type") == {"twice": "int16", "name": "str"}
    assert (read[0].dtype, read[0].tolist()) == (np.int16, [[1, 2], [3, 4]])
