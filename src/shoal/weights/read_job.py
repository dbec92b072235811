"""An expert that is to be read, why, and what became of it."""

from dataclasses import dataclass, field
from enum import IntEnum

from torch import Tensor

from shoal.ops.mixture import ExpertWeights
from shoal.weights.expert_key import Key


class Urgency(IntEnum):
    """Why an expert is read; what is of the first kind goes first.

    What nobody waits for would only take from the speed of what somebody does. So a read ahead begins while nothing
    else is read, and one to warm the store while no demand is. Several reads ahead at once would all be half done when
    the demands come; one after the other, the likeliest is there.
    """

    DEMAND = 0
    AHEAD = 1
    WARM = 2


@dataclass(eq=False)
class ReadJob:
    """An expert to be read into `room`. Once done it has weights or the problem that prevented them."""

    key: Key
    room: Tensor
    urgency: Urgency = Urgency.DEMAND
    weights: ExpertWeights | None = field(default=None, init=False)
    problem: BaseException | None = field(default=None, init=False)
