"""A hang is a failure of the test that meets it, not a wait."""

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def within(call: Callable[[], Result], seconds: float) -> Result:
    """What `call` returns or raises in a thread of its own; fails where it does neither in time."""
    returned, raised = list[Result](), list[BaseException]()

    def target() -> None:
        try:
            returned.append(call())
        except BaseException as problem:
            raised.append(problem)

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"no end after {seconds} s"
    if raised:
        raise raised[0]
    return returned[0]
