"""Groups of parameters, settings by layer and private layers, against loops over names and entries."""

from fnmatch import fnmatchcase

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedplus as fp
from fedplus.parameter_groups import ParameterGroups, PrivateLayers, per_entry

NAMES = ["body/b", "body/w", "head/b", "head/w", "norm", "head"]
PATTERNS = ["head/*", "*/b", "body*", "norm", "h???", "*w", "[bn]o*"]


@st.composite
def layouts(draw):
    """Draw the names of some parameters in any order, and their sizes."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    return tuple((name, draw(st.integers(1, 3))) for name in names)


def owner_of(name, patterns):
    return next(pattern for pattern in patterns if fnmatchcase(name, pattern))


@st.composite
def groupings(draw):
    """Draw a layout, and patterns of which each owns a parameter."""
    layout = draw(layouts())
    patterns = [*draw(st.lists(st.sampled_from(PATTERNS), unique=True)), "*"]
    owners = {owner_of(name, patterns) for name, _ in layout}
    return layout, [pattern for pattern in patterns if pattern in owners]


def entry_owners(layout, patterns):
    """Return the pattern of each entry of a raveled model."""
    return np.array([owner_of(name, patterns) for name, size in layout for _ in range(size)])


@given(groupings(), st.integers(0, 2**32 - 1), st.sampled_from([np.asarray, jnp.asarray]))
def test_split_takes_the_columns_of_each_pattern_and_concatenate_restores_the_model(
    grouping, seed, as_array
):
    layout, patterns = grouping
    groups = ParameterGroups(tuple(patterns), layout)
    owners = entry_owners(layout, patterns)
    for shape in ((len(owners),), (3, len(owners))):
        x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        parts = groups.split(as_array(x))
        assert list(parts) == patterns
        for pattern, part in parts.items():
            assert type(part) is type(as_array(x))
            np.testing.assert_array_equal(part, x[..., owners == pattern])
        np.testing.assert_array_equal(groups.concatenate(parts), x)


@given(groupings(), st.integers(0, 2**32 - 1))
def test_a_setting_by_layer_has_the_number_of_its_pattern_for_each_entry(grouping, seed):
    layout, patterns = grouping
    rng = np.random.default_rng(seed)
    values = {pattern: float(rng.normal()) for pattern in patterns}
    owners = entry_owners(layout, patterns)
    setting = fp.ByLayer(values, layout)
    expected = [values[owner] for owner in owners]
    np.testing.assert_allclose(per_entry(setting), expected)
    traced = fp.ByLayer({p: jnp.asarray(x) for p, x in values.items()}, layout)
    np.testing.assert_allclose(per_entry(traced), expected, rtol=1e-6)
    assert per_entry(0.5) == 0.5


@given(layouts(), st.sets(st.sampled_from(PATTERNS)), st.integers(0, 2**32 - 1))
def test_private_layers_are_left_out_of_what_is_shared(layout, patterns, seed):
    names = [name for name, _ in layout]
    patterns = [p for p in patterns if any(fnmatchcase(name, p) for name in names)]
    is_private = np.array([
        any(fnmatchcase(name, p) for p in patterns) for name, size in layout for _ in range(size)
    ])  # fmt: skip
    if is_private.all():
        with pytest.raises(fp.SettingError, match=r"^private must be fewer of them, got [^\n]+$"):
            PrivateLayers(patterns, layout)
        return
    private = PrivateLayers(patterns, layout)
    np.testing.assert_array_equal(private.is_private, is_private)
    rng = np.random.default_rng(seed)
    w, models = rng.normal(size=len(is_private)), rng.normal(size=(3, len(is_private)))
    np.testing.assert_array_equal(private.shared(models), models[:, ~is_private])
    new = rng.normal(size=(~is_private).sum())
    replaced = private.replace_shared(w, new)
    np.testing.assert_array_equal(replaced[~is_private], new)
    np.testing.assert_array_equal(replaced[is_private], w[is_private])
    expected = tuple(n for n in names if any(fnmatchcase(n, p) for p in patterns))
    assert private.names == expected


LAYOUT = (("body", 2), ("head/w", 3))
BAD = {
    "no pattern": lambda: ParameterGroups((), LAYOUT),
    "no parameter": lambda: ParameterGroups(("*",), ()),
    "not covered": lambda: ParameterGroups(("head/*",), LAYOUT),
    "matches nothing": lambda: ParameterGroups(("tail", "*"), LAYOUT),
    "shadowed": lambda: ParameterGroups(("*", "body"), LAYOUT),
    "size": lambda: ParameterGroups(("*",), LAYOUT).split(np.zeros(4)),
    "private matches nothing": lambda: PrivateLayers(("tail",), LAYOUT),
    "private, all": lambda: PrivateLayers(("*",), LAYOUT),
    "by layer, not covered": lambda: fp.ByLayer({"head/*": 1.0}, LAYOUT),
    "eta": lambda: fp.LocalSolve(fp.Zero(), eta=fp.ByLayer({"head/*": -1.0, "*": 1.0}, LAYOUT)),
    "sigma": lambda: fp.LocalSolve(fp.Zero(), eta=1, sigma=fp.ByLayer({"*": np.nan}, LAYOUT)),
    "lam": lambda: fp.LocalSolve(fp.Zero(), eta=1, lam=fp.ByLayer({"*": 1.5}, LAYOUT)),
    "text": lambda: fp.LocalSolve(fp.Zero(), eta=1, sigma=fp.ByLayer({"*": "1"}, LAYOUT)),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_groups_are_reported_in_one_line(name):
    with pytest.raises(fp.SettingError, match=r"\A\S.* must be .+, got .+\Z"):
        BAD[name]()
