from shoal.checkpoint.said_once import SaidOnce


def test_a_sentence_is_passed_on_once() -> None:
    told = list[str]()
    say = SaidOnce(told.append)
    for sentence in ("one", "two", "one", "one", "two"):
        say(sentence)
    assert told == ["one", "two"]


def test_nobody_needs_to_listen() -> None:
    SaidOnce(None)("one")
