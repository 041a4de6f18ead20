"""
The alternating-bit protocol: one value at a time, over two queues that lose messages.

After `specifications/SpecifyingSystems/TLC/AlternatingBit.tla` of the TLA+ examples (Lamport), at
the constants of `MCAlternatingBit.cfg`: two values, at most two messages in each queue. TLC
discards states with a longer queue; here the queues have a capacity of two, and what would overflow
them is dropped and counted, as there. Losing the second of two messages is written as taking both
and putting the first back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from herdspec import (
    Capacity,
    Sort,
    Spec,
    action,
    always,
    empty,
    initial,
    require,
    sometimes,
    specification,
)


class Value(Sort):
    """What is sent."""


@dataclass(frozen=True)
class Message:
    """A value with its bit."""

    bit: bool
    value: Value


class AlternatingBit(Spec):
    """The sender repeats a value until its bit comes back; the next one has the other bit."""

    messages: Annotated[list[Message], Capacity(2)] = empty()
    answers: Annotated[list[bool], Capacity(2)] = empty()
    sent_bit: bool = False
    acknowledged_bit: bool = False
    received_bit: bool = False
    sent: Value | None = None
    received: Value | None = None

    @initial
    def start(self, bit: bool, sent: Value, received: Value) -> None:
        """All bits are alike, and any value was sent and received last."""
        self.sent_bit = bit
        self.acknowledged_bit = bit
        self.received_bit = bit
        self.sent = sent
        self.received = received

    @action
    def send(self, value: Value) -> None:
        """The sender sends the value {value}."""
        require(self.acknowledged_bit == self.sent_bit)
        self.sent = value
        self.sent_bit = not self.sent_bit
        self.messages.append(Message(bit=self.sent_bit, value=value))

    @action
    def send_again(self) -> None:
        """The sender sends the same value again."""
        require(self.acknowledged_bit != self.sent_bit)
        assert self.sent is not None
        self.messages.append(Message(bit=self.sent_bit, value=self.sent))

    @action
    def receive(self) -> None:
        """The receiver takes a message."""
        require(len(self.messages) > 0)
        message = self.messages.pop(0)
        self.received_bit = message.bit
        self.received = message.value

    @action
    def acknowledge(self) -> None:
        """The receiver says which bit it has."""
        self.answers.append(self.received_bit)

    @action
    def receive_acknowledgement(self) -> None:
        """The sender learns which bit the receiver has."""
        require(len(self.answers) > 0)
        self.acknowledged_bit = self.answers.pop(0)

    @action
    def lose_first_message(self) -> None:
        """The first message is lost."""
        require(len(self.messages) > 0)
        self.messages.pop(0)

    @action
    def lose_second_message(self) -> None:
        """The second message is lost."""
        require(len(self.messages) == 2)
        kept = self.messages.pop(0)
        self.messages.pop(0)
        self.messages.append(kept)

    @action
    def lose_first_answer(self) -> None:
        """The first acknowledgement is lost."""
        require(len(self.answers) > 0)
        self.answers.pop(0)

    @action
    def lose_second_answer(self) -> None:
        """The second acknowledgement is lost."""
        require(len(self.answers) == 2)
        kept = self.answers.pop(0)
        self.answers.pop(0)
        self.answers.append(kept)


@always
def the_bit_comes_with_its_value(s: AlternatingBit) -> bool:
    """When the receiver has the bit of the value under way, it has the value."""
    return s.acknowledged_bit == s.sent_bit or s.received_bit != s.sent_bit or s.received == s.sent


@sometimes
def a_value_is_under_way(s: AlternatingBit) -> bool:
    """A value is sent that the receiver does not have."""
    return s.acknowledged_bit != s.sent_bit and s.received != s.sent


ALTERNATING_BIT = specification(AlternatingBit, the_bit_comes_with_its_value, a_value_is_under_way)
