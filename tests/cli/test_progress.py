"""Progress in a log: a line for each stage, and now and then how long it will take."""

from __future__ import annotations

from inweights.cli._progress import EVERY, Lines, clock_time, stages


def test_lines_name_each_stage_and_the_time_left() -> None:
    now, lines = [0.0], list[str]()
    after = stages(Lines(lines.append, lambda: now[0]), "folding")
    for done in range(0, 101, 10):
        after("solving", done, 100)
        now[0] += EVERY / 2
    after("measuring", 0, 0)
    now[0] += EVERY
    after("measuring", 0, 0)
    assert lines[:2] == ["folding …\n", "solving …\n"]
    assert lines[2] == f"solving: 20 of 100, {clock_time(EVERY / 20 * 80)} left\n"
    assert lines[-2:] == ["measuring …\n", f"measuring: {clock_time(EVERY)} so far\n"]
    assert len(lines) == 2 + 5 + 2  # every second of the ten updates is EVERY after the line before it


def test_a_step_that_takes_minutes_has_lines_too() -> None:
    """Written by a clock, not by progress; nothing before its time."""
    now, lines = [0.0], list[str]()
    shown = Lines(lines.append, lambda: now[0])
    stages(shown, "reading")
    shown.tick()
    assert lines == ["reading …\n"]
    now[0] += EVERY
    shown.tick()
    shown.tick()
    assert lines[1:] == [f"reading: {clock_time(EVERY)} so far\n"]


def test_clock_time() -> None:
    assert [clock_time(s) for s in (0, 59.6, 125)] == ["0:00", "1:00", "2:05"]
