"""The plan of a demonstration: it ends in time, and whatever it breaks it makes up for."""

from __future__ import annotations

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herdproof.cli.run.demo.plan import (
    EPISODES,
    LEAST_S,
    SESSION_S,
    SETTLE_S,
    WHOLE_S,
    Do,
    Episode,
    Whom,
    planned,
    turns,
)

MADE_UP = {Do.KILL: Do.START, Do.STOP: Do.START, Do.PAUSE: Do.RESUME, Do.CUT: Do.MEND}
"""What has to follow what; connections that are cut come back by themselves."""


@given(seconds=st.floats(min_value=0, max_value=1_000))
def test_no_episode_is_cut(seconds: float) -> None:
    """Every act comes in its order, after all has settled and before the end."""
    acts = planned(seconds)

    times = [act.at_s for act in acts]
    assert times == sorted(times)
    assert all(SETTLE_S <= time < seconds for time in times)
    broken = [act.do for act in acts if act.do in MADE_UP]
    assert sorted(map(str, map(MADE_UP.get, broken))) == sorted(
        str(act.do) for act in acts if act.do in MADE_UP.values()
    )


def test_the_whole_plan_breaks_everybody_in_every_way() -> None:
    """The default demonstration plays each episode once, and no act is without a use."""
    acts = planned(WHOLE_S)

    assert len(acts) == sum(len(episode.acts) for episode in EPISODES)
    assert {act.do for act in acts} == set(Do)
    assert {act.whom for act in acts} == set(Whom)


def test_a_long_plan_begins_again() -> None:
    """After the last episode comes the first, and in the shortest plan the first alone."""
    first = EPISODES[0].acts

    assert len(planned(WHOLE_S + EPISODES[0].lasts_s)) == len(planned(WHOLE_S)) + len(first)
    assert [act.words for act in planned(LEAST_S)] == [act.words for act in first]
    assert planned(LEAST_S - 1) == []


@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: episode.acts[0].words[:20])
def test_an_episode_ends_mended(episode: Episode) -> None:
    """What is killed is started, who is paused goes on, and there is time for what follows."""
    first, *rest = episode.acts

    assert [act.do for act in rest] == [MADE_UP[first.do]] if first.do in MADE_UP else not rest
    assert all(act.at_s < episode.lasts_s for act in episode.acts)
    if first.whom is not Whom.ZOOKEEPER and first.do in (Do.KILL, Do.PAUSE, Do.CUT):
        assert rest[0].at_s > SESSION_S, "the others notice before it is mended"


def test_an_act_names_whom_it_meets() -> None:
    """Its sentence has the name and the time-out, and nothing that is still to be filled in."""
    told = planned(LEAST_S)[0].told("coordinator 2")

    assert told.startswith("the leader, coordinator 2, is killed (kill -9)")
    assert f"{SESSION_S:g} s" in told
    assert not [act for act in planned(WHOLE_S) if set("{}") & set(act.told("x"))]


def test_consumers_are_broken_in_turn() -> None:
    """No consumer is broken twice in a row, if there are others."""
    assert all(a != b for a, b in pairwise(islice(turns(3), 10)))
    assert set(islice(turns(3), 3)) == {1, 2, 3}
    assert set(islice(turns(1), 3)) == {1}
