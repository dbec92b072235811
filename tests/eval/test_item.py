"""A sample of a suite."""

from shoal.eval.item import Passage, Suite


def test_a_sample_is_spread_evenly_and_the_same_always() -> None:
    suite = Suite("s", [Passage(line, "g", "a") for line in range(10)])
    assert [item.line for item in suite.sample(4).items] == [0, 2, 5, 7]
    assert suite.sample(4) == suite.sample(4)
    assert suite.sample(1).items == suite.items[:1]
    assert suite.sample(10) is suite.sample(11) is suite.sample(None) is suite
