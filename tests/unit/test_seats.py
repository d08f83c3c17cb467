"""Who sits where and who is in line, by the clock handed in."""

from __future__ import annotations

from seqrt.gateway.seats import GONE_S, Seats


def sit(seats: Seats, lease: str, number: int, until: float = 100.0, epoch: int = 1) -> None:
    seats.sit(lease, number, until=until, epoch=epoch)


def test_a_seat_is_held_until_its_lease_is_over() -> None:
    seats = Seats(2)
    sit(seats, "a", 1, until=60.0)
    assert [seats.of("a", now) for now in (0.0, 59.9, 60.0)] == [1, 1, None]
    assert seats.taken(59.0) == [0, 1]
    assert seats.taken(60.0) == [0, 0]


def test_what_was_left_counts_until_it_is_given_back() -> None:
    seats = Seats(2)
    sit(seats, "a", 0, epoch=10)
    sit(seats, "a", 1, epoch=11)
    assert seats.taken(1.0) == [1, 1]
    assert seats.of("a", 1.0) == 1
    assert seats.of("a", 1.0, epoch=10) == 0  # it may go back to the one before
    assert seats.others_of("a") == [0]
    assert seats.taken(1.0) == [0, 1]


def test_who_goes_back_to_the_seat_before_leaves_the_other() -> None:
    seats = Seats(2)
    sit(seats, "a", 0, epoch=10)
    sit(seats, "a", 1, epoch=11)
    sit(seats, "a", 0, epoch=10)
    assert seats.others_of("a") == [1]
    assert seats.of("a", 1.0) == 0


def test_the_line_keeps_its_order_and_only_its_front_may_sit() -> None:
    seats = Seats(1)
    assert seats.ask("a", 0.0).may_sit
    for number, lease in enumerate("abc"):
        standing = seats.wait(lease, float(number))
        assert (standing.position, standing.may_sit) == (number + 1, number == 0)
    assert not seats.ask("d", 3.0).may_sit, "a newcomer passes nobody"
    assert seats.ask("a", 3.0).may_sit
    sit(seats, "a", 0)
    assert seats.ask("b", 4.0).position == 1
    assert seats.position("c", 4.0) == 2
    assert seats.position("d", 4.0) is None


def test_who_does_not_ask_any_more_has_left_the_line() -> None:
    seats = Seats(1)
    seats.wait("a", 0.0)
    seats.wait("b", 0.0)
    seats.ask("b", GONE_S)
    assert seats.ask("b", GONE_S + 0.1).position == 1


def test_who_leaves_makes_room_at_once() -> None:
    seats = Seats(1)
    seats.wait("a", 0.0)
    seats.wait("b", 0.0)
    seats.leave("a")
    assert seats.position("b", 0.1) == 1


def test_a_wait_is_over_after_its_time_and_the_next_one_begins_at_the_end() -> None:
    seats = Seats(1, queue_timeout_s=5.0)
    for at in range(6):
        seats.ask("a", float(at))
        assert not seats.wait("a", float(at)).is_over
    seats.wait("b", 5.0)
    seats.ask("a", 5.1)
    over = seats.wait("a", 5.1)
    assert over.is_over
    assert (over.waited_s, over.most_s) == (5.1, 5.0)
    assert seats.wait("a", 5.2).position == 2


def test_where_a_full_house_is_refused_there_is_no_line() -> None:
    seats = Seats(1, on_full="reject")
    assert seats.wait("a", 0.0).position is None
    assert seats.ask("b", 0.0).may_sit
