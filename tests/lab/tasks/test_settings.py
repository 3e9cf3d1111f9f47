"""Settings of tasks are checked."""

from __future__ import annotations

from typing import Any

import pytest

from inweights._errors import InputError
from inweights.lab import Draw
from inweights.lab.tasks import TASKS

EVERY = list(TASKS)

FREE = {"renormalise", "fresh"}


BAD: dict[str, list[tuple[dict[str, Any], str]]] = {
    "composition": [
        ({"first": "sine"}, "`first` is 'sine', but must be one of kernel, linear, quadratic, relu, sparse, tree."),
        ({"second": "tree"}, "`second` is 'tree', but must be one of hetero, linear, relu, sparse."),
        ({"second": "sparse", "steps": 2}, "`steps` is 2, but must be at least 3."),
        ({"first": "sparse", "dims": 2}, "`dims` is 2, but `sparse` needs at least 3."),
    ],
    "dynamics": [
        ({"observed": 0}, "`observed` is 0, but must be at least 1."),
        ({"radius": 1.0}, "`radius` is 1.0, but must be between 0 and 1."),
        ({"noise": 0.0}, "`noise` is 0.0, but must be above 0: it alone moves the states."),
    ],
    "gaussian": [
        ({"spread": 0.0}, "`spread` is 0.0, but must be above 0."),
        ({"noise": -1}, "`noise` is -1.0, but must be at least 0."),
    ],
    "kernel": [
        ({"length": 0.0}, "`length` is 0.0, but must be above 0."),
        ({"features": 0}, "`features` is 0, but must be at least 1."),
        ({"noise": -1.0}, "`noise` is -1.0, but must be at least 0."),
    ],
    "logistic": [({"scale": 0.0}, "`scale` is 0.0, but must be above 0.")],
    "mixed-noise": [({"levels": ()}, "`levels` is (), but must be one or more numbers, none below 0.")],
    "parity": [({"kept": 11}, "`kept` is 11, but must be from 1 to `dims`, 10.")],
    "pool": [({"size": 0}, "`size` is 0, but must be at least 1.")],
    "relu": [({"width": 0}, "`width` is 0, but must be at least 1.")],
    "repeats": [
        ({"dims": 2}, "`dims` is 2, but tokens have 1."),
        ({"vocabulary": 1}, "`vocabulary` is 1, but must be at least 2."),
        ({"shortest": 26}, "`shortest` is 26, but must be from 1 to `longest`, 25."),
        ({"longest": 24}, "`shortest` is 25, but must be from 1 to `longest`, 24."),
    ],
    "retrieval": [
        ({"dims": 1}, "`dims` is 1, but must be at least 2."),
        ({"pairs": 0}, "`pairs` is 0, but must be at least 1."),
    ],
    "rotated": [
        (
            {"eigenvalues": (1.0,)},
            "`eigenvalues` is (1.0,), but must be `dims`, 5, numbers above 0.",
        )
    ],
    "conditioned": [
        ({"condition": 0.5}, "`condition` is 0.5, but must be at least 1."),
        ({"dims": 3}, "`dims` is 3, but must be even."),
    ],
    "scaled": [({"spread": 0.0}, "`spread` is 0.0, but must be above 0.")],
    "several-outputs": [({"components": 0}, "`components` is 0, but must be at least 1.")],
    "shuffled": [({"width": 0.0}, "`width` is 0.0, but must be above 0.")],
    "sine": [({"dims": 2}, "`dims` is 2, but waves have 1.")],
    "sparse": [({"kept": 0}, "`kept` is 0, but must be from 1 to `dims`, 20.")],
    "tree": [({"depth": 0}, "`depth` is 0, but must be from 1 to 20.")],
    "uniform": [({"width": 0.0}, "`width` is 0.0, but must be above 0.")],
    **{
        name: [({"share": 1.0}, "`share` is 1.0, but must be from 0 to below 1.")]
        for name in ("many-outliers", "orthogonal-outliers")
    },
}
BAD["orthogonal-outliers"] += [({"dims": 2}, "`dims` is 2, but must be at least 3.")]
for name in (
    "conditioned",
    "hetero",
    "linear",
    "noisy",
    "pool",
    "rotated",
    "scaled",
    "shuffled",
    "skewed",
    "sparse",
    "uniform",
):
    BAD.setdefault(name, []).append(({"noise": -0.5}, "`noise` is -0.5, but must be at least 0."))
for name in ("pool", "rotated", "skewed"):
    BAD[name].append(({"which": -1}, "`which` is -1, but must be at least 0."))
for name in EVERY:
    BAD.setdefault(name, []).append(({"dims": 0}, "`dims` is 0, but must be at least 1."))


@pytest.mark.parametrize("name", EVERY)
def test_every_setting_is_checked(name: str) -> None:
    assert set(TASKS.fields(name)) - FREE == {key for settings, _ in BAD[name] for key in settings}
    for settings, message in BAD[name]:
        with pytest.raises(InputError) as error:
            TASKS.make(name, **settings)
        assert message in str(error.value)
    TASKS.make(name)


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(InputError) as error:
        TASKS.make("sparse", dims=0, noise=-1.0)
    assert str(error.value).splitlines() == [
        "The task sparse: `dims` is 0, but must be at least 1.",
        "`noise` is -1.0, but must be at least 0.",
        "`kept` is 3, but must be from 1 to `dims`, 0.",
    ]


def test_retrieval_reports_the_number_of_points_it_needs() -> None:
    with pytest.raises(InputError, match="`points` is 16, but must be above `pairs`, 16"):
        TASKS.make("retrieval", pairs=16).sample(Draw(5, 3, 4), 16)
