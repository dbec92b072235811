"""Nothing is drawn again before all others were."""

from shoal.bench.deck import Deck


def test_every_card_is_drawn_before_one_is_drawn_again() -> None:
    deck = Deck("abcdefgh", seed=3)
    assert sorted(deck.draw(5) + deck.draw(3)) == list("abcdefgh")
    assert sorted(deck.draw(8)) == list("abcdefgh")


def test_a_draw_across_the_end_has_no_card_twice_and_the_last_ones_first() -> None:
    for seed in range(20):
        deck = Deck(range(7), seed)
        left = set(range(7)) - set(deck.draw(5))
        drawn = deck.draw(6)
        assert len(set(drawn)) == 6 and set(drawn[:2]) == left


def test_the_same_seed_draws_the_same() -> None:
    assert Deck(range(50), 1).draw(20) == Deck(range(50), 1).draw(20) != Deck(range(50), 2).draw(20)
