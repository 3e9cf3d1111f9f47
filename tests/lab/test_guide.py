"""The examples in docs/lab.md match the lab."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inweights import InputError
from inweights.lab import _own
from inweights.lab.tasks import TASKS
from inweights.lab.training import changed, load_trained, read, train

GUIDE = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL)


def test_the_whole_recipe_is_one(tmp_path: Path) -> None:
    path = tmp_path / "sparse-10.toml"
    path.write_text(blocks("toml")[0], encoding="utf-8")
    recipe = read(str(path))
    assert (recipe.task.kind, recipe.make_model().shape.layers) == ("sparse", 2)  # type: ignore[attr-defined]
    assert recipe.curriculum is not None


def test_examples_as_changes_of_weights() -> None:
    exec(next(b for b in blocks("py") if "absorb" in b), {})


@pytest.fixture
def cubic(tmp_path: Path) -> Iterator[Path]:
    """The file of the guide; what it registers is removed afterwards."""
    path = tmp_path / "cubic.py"
    path.write_text(next(b for b in blocks("py") if "cubic.py" in b), encoding="utf-8")
    before = {what: registry.kinds() for what, registry in _own.REGISTRIES.items()}
    yield path
    for what, registry in _own.REGISTRIES.items():
        registry.restore(before[what])
    for name in [n for n in sys.modules if n.startswith(_own.PREFIX)]:
        del sys.modules[name]


def test_a_task_of_ones_own(cubic: Path, tmp_path: Path) -> None:
    _own.load_own([cubic])
    recipe = changed(read("linear-5"), ["task.kind=cubic", "task.dims=2", "steps=3", "model.layers=1", "points=4"])
    done = train(recipe, tmp_path / "out")
    assert load_trained(done.path)[2]["own"] == _own.own_modules(recipe.make_task())
    mean, error = _own.power(recipe.make_task())
    assert abs(mean - 30) < 5 * error
    # Another form of the file is another task: the training is not gone on with.
    sys.modules.pop(type(recipe.make_task()).__module__)
    TASKS.restore({n: k for n, k in TASKS.kinds().items() if n != "cubic"})
    with pytest.raises(InputError, match="made with a task 'cubic' from a file of its own: name that file with --load"):
        load_trained(done.path)
    cubic.write_text(cubic.read_text() + "\n# changed\n")
    _own.load_own([cubic])
    with pytest.raises(InputError, match="another form of the file that --load names"):
        train(recipe, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("15.0 * self.dims", "float(self.dims)", "`power` is 20, but the mean square of its labels without noise is 3"),
        ("    def power(self)", "    def powers(self)", "must say its `power`"),
        ("draw.normal(self.dims)", "xs.new_empty(len(xs), self.dims).normal_()", "take all that is random from `draw`"),
        ("draw.normal(self.dims)", "draw.normal(self.dims).cumsum(0)", "no prompt may depend on the rest"),
        (', "clean": ys', "", "must give its labels without noise as `clean`"),
        (".squeeze(-1)", "", r"draws labels of shape \(8, 16, 1\)"),
        ("xs**3", "xs**three", "cannot be drawn from .NameError"),
        ('"cubic"', '"linear"', "there is a task 'linear' already"),
        ('@TASKS("cubic")\n', "", "it enters nothing"),
        ("from dataclasses", "from dataklasses", "line 2 fails: ModuleNotFoundError"),
        ("class Cubic", "klass Cubic", r"line \d+ fails: SyntaxError"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused(cubic: Path, old: str, new: str, said: str) -> None:
    whole = cubic.read_text()
    assert old in whole
    cubic.write_text(whole.replace(old, new, 1))
    with pytest.raises(InputError, match=f"^--load is '.*cubic.py', but .*{said}"):
        _own.load_own([cubic])
    assert "cubic" not in TASKS
    cubic.write_text(whole)
    _own.load_own([cubic])
    assert "cubic" in TASKS


def test_settings_of_a_recipe_are_tried_as_well(cubic: Path) -> None:
    cubic.write_text(cubic.read_text().replace("15.0 * self.dims", "15.0 * 20"))
    _own.load_own([cubic])  # right by default
    with pytest.raises(InputError, match="The task 'cubic' says that its `power` is 300, but"):
        changed(read("linear-5"), ["task.kind=cubic", "task.dims=2"])
