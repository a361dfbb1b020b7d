"""Classes of values, beside the dataclasses that say the same."""

import copy
import dataclasses
import inspect
import pickle

import pytest

from xlab.backend.values import fresh, record_class, replaced, value_class


@value_class
class Mine:
    x: int
    y: tuple = ()
    z: str = "z"


@dataclasses.dataclass(frozen=True)
class Theirs:
    x: int
    y: tuple = ()
    z: str = "z"


CALLS = [((1,), {}), ((1, (2,), "3"), {}), ((), {"z": "a", "x": 5}), ((1,), {"y": (3,)})]


@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_as_a_frozen_dataclass(args, kwargs):
    mine, theirs = Mine(*args, **kwargs), Theirs(*args, **kwargs)
    assert repr(mine) == repr(theirs).replace("Theirs", "Mine")
    assert vars(mine) == vars(theirs) and mine == Mine(*args, **kwargs) and mine != Mine(-1)
    assert hash(mine) == hash(Mine(*args, **kwargs)) and mine != theirs
    assert pickle.loads(pickle.dumps(mine)) == copy.copy(mine) == copy.deepcopy(mine) == mine
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        mine.x = 3
    with pytest.raises(dataclasses.FrozenInstanceError, match="'x'"):
        del mine.x


def test_signature_and_patterns():
    assert inspect.signature(Mine).parameters == inspect.signature(Theirs).parameters
    match Mine(1, (2,)):
        case Mine(x, y, z):
            assert (x, y, z) == (1, (2,), "z")


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, "missing 'x'"),
        ((1, (), "", 4), {}, "takes 3 arguments, got 4"),
        ((1,), {"x": 1}, "'x' twice"),
        ((1,), {"w": 1}, "no argument 'w'; it takes x, y, z"),
    ],
)
def test_arguments_that_do_not_fit(args, kwargs, says):
    with pytest.raises(TypeError, match=says):
        Mine(*args, **kwargs)


def test_what_a_class_says_itself_stays():
    @value_class
    class Own:
        x: list

        def __post_init__(self):
            object.__setattr__(self, "x", tuple(self.x))

        def __repr__(self):
            return f"<{self.x}>"

    assert repr(Own([1])) == "<(1,)>" and Own([1]) == Own((1,))


@record_class
class Draft:
    title: str
    lines: list = fresh(factory=list)


def test_fresh_defaults_belong_to_one_record():
    one, two = Draft("a"), Draft("a")
    one.lines.append(1)
    assert two.lines == [] and not hasattr(Draft, "lines")
    given = ["x"]
    assert Draft("a", given).lines is given and Draft(title="a", lines=given).lines is given
    assert one != two and len({one, two}) == 2  # equal to themselves only, as `dataclass(eq=False)`
    one.title = "b"
    assert repr(one) == "Draft(title='b', lines=[1])"


def test_replaced_makes_another_and_keeps_what_is_not_named():
    first = Draft("a", [1])
    second = replaced(first, title="b")
    assert (first.title, second.title) == ("a", "b") and second.lines is first.lines
    assert replaced(Mine(1, (2,)), x=3) == Mine(3, (2,))
    with pytest.raises(TypeError, match="no argument 'w'"):
        replaced(first, w=1)
