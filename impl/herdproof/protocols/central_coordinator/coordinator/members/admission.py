"""
Register: who is refused, and how a consumer becomes a member.

A consumer is answered only after its subscription was written under the fence: so the epoch in
the answer is that of a coordinator that ZooKeeper still took for the leader when the consumer came.
Then it is a member, scheduled for pings, and its group is rebalanced.

Who asks to *resume* a registration consumes what that was given. If it was given that in the
present generation, it is *adopted*: a member under its former name, which follows the present
Start. A rebalance that finds nothing else to do is not necessary. Else it is refused, lets go, and
registers anew.

Who says where registrations that are over have stopped is admitted once what is stored of these
partitions is read, and nothing of the group is in doubt (`bringing.py`).

Source: `002` (On Consumer Add/Delete), `000` ("if the registry is rejected"), PROTOCOLS.md, rulings
5 and 6. Nothing can be told to whoever registers in the legacy form: it has no RegisterResponse.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from msgspec.structs import replace

from herdproof.consuming import group_nodes
from herdproof.consuming.subscription import (
    InvalidSubscription,
    Subscription,
    parse,
)
from herdproof.protocols.central_coordinator.coordinator.context import Context, CorePart
from herdproof.protocols.central_coordinator.coordinator.groups import Group, Registered
from herdproof.protocols.central_coordinator.coordinator.members.bringing import BroughtOffsets
from herdproof.protocols.central_coordinator.coordinator.store import StoreResult
from herdproof.protocols.central_coordinator.reports import What
from herdproof.protocols.central_coordinator.steps import CoordinationStep, CoordinatorAction
from herdproof.protocols.central_coordinator.wire.messages import (
    ErrorCode,
    Frame,
    Message,
    Register,
    RegisterResponse,
)
from herdproof.zookeeper.operations import Answer, Children, Names, Refusal, Why

FORMER_HEEDED = 64
"""The most former registrations of one process that are heeded, the last ones."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a registration is refused."""

    error: ErrorCode
    why: str


@dataclass(slots=True, eq=False)
class Applicant:
    """Whose registration is under way."""

    member: Registered
    frame: Frame
    matched: bool = False
    """It is known which topics its subscription means."""
    stored: bool = False
    """Its subscription is written; it waits for its group to admit members again."""

    @property
    def resumes(self) -> str | None:
        """The registration that it asks to resume, if it does."""
        register = self.frame.message
        assert isinstance(register, Register)
        return register.resumes


Then = Callable[[Group, Applicant], None]
"""Goes on with somebody's registration."""


class Admission(CorePart):
    """
    Registrations that are under way; `admitted` is told of each that is a member from now on.

    `group_of` finds a group, or makes it; `left` is told of a group that somebody didn't join.
    """

    brought_class: ClassVar[type[BroughtOffsets]] = BroughtOffsets
    """Class that takes what its members bring; a subclass may name another."""

    def __init__(
        self, context: Context, group_of: Callable[[str], Group],
        admitted: Callable[[Group, Registered], None], left: Callable[[Group, str], None],
    ) -> None:  # fmt: skip
        super().__init__(context)
        self.registrations = 0
        """Number of registrations; it goes on, as a broker may be re-elected in the same epoch."""
        self.applicants: dict[int, Applicant] = {}
        """By channel."""
        self.reopening: deque[Group] = deque()
        """Groups of which the next ticks admit those who have waited for that."""
        self._server = context.server
        self._store = context.store
        self._group_of = group_of
        self._admitted = admitted
        self._left = left
        self._brought = self.brought_class(context)

    def clear(self) -> None:
        """Nobody is registering."""
        self.applicants.clear()
        self.reopening.clear()

    def register(self, number: int, frame: Frame, *, legacy: bool) -> None:
        """Somebody registers over a channel."""
        register = frame.message
        assert isinstance(register, Register)
        refused = self._refusal(frame.epoch, register, legacy=legacy)
        subscription = refused or self._read(register)
        if isinstance(subscription, Rejected):
            # One that comes to nothing because it cannot be stored is no step of the protocol.
            step = CoordinationStep(
                action=handles(register), group=register.group_id,
                consumer=register.consumer_id, connection=frame.correlation_id,
                outcome=subscription.error.name,
            )  # fmt: skip
            self._outbox.emit(step)
            self._refuse(number, frame, subscription)
            return
        group = self._group_of(register.group_id)
        self._server.registers(number)
        member = group.joining[number] = self._member(number, frame, subscription)
        applicant = self.applicants[number] = Applicant(member, frame)
        self._context.matches.hold(subscription, partial(self._matched, group, applicant))

    def _matched(self, group: Group, applicant: Applicant) -> None:
        """It is known which topics an applicant wants."""
        applicant.matched = True
        if group.loaded and self.applicants.get(applicant.member.channel) is applicant:
            self._look(group, applicant, self._store_subscription)

    def group_loaded(self, group: Group) -> None:
        """A group has been read: store the subscriptions of those who wait for that."""
        for number in list(group.joining):
            applicant = self.applicants[number]
            if applicant.matched and not applicant.stored:
                self._look(group, applicant, self._store_subscription)
        if not group.is_closed():
            self.reopened(group)  # who brings offsets has waited for this

    def reopened(self, group: Group) -> None:
        """A group admits members again: as many as fit into this event, the others later."""
        for number in list(group.joining):
            applicant = self.applicants[number]
            if not applicant.stored:
                continue
            if self._outbox.is_full():
                self._admit_later(group)
                return
            self._admit(group, applicant)

    def _admit_later(self, group: Group) -> None:
        if group not in self.reopening:
            self.reopening.append(group)

    def go_on(self) -> None:
        """Admit who waits in a group that has reopened, unless it is closed again."""
        for _ in range(len(self.reopening)):
            group = self.reopening.popleft()
            if not group.is_closed():
                self.reopened(group)

    def closed(self, number: int) -> None:
        """A channel is closed: whoever was registering over it is gone."""
        applicant = self.applicants.pop(number, None)
        if applicant is not None:
            self._context.matches.drop(applicant.member.subscription)
            group = self._groups[applicant.member.group]
            del group.joining[number]
            self._left(group, applicant.member.consumer_id)

    # ── Refusals ────────────────────────────────────────────────────────────────────────────

    def _refusal(self, epoch: int, register: Register, *, legacy: bool) -> Rejected | None:
        """Why nobody can register so, here and now, if that is so."""
        if legacy:
            why = "the legacy form carries no epoch, so that nothing could be fenced"
            return Rejected(ErrorCode.FENCED_FORM_REQUIRED, why)
        if not self._context.leads:
            return Rejected(ErrorCode.NOT_COORDINATOR, "this broker does not coordinate")
        if epoch > self._context.epoch:
            why = f"it has seen epoch {epoch}, which is later than {self._context.epoch}"
            return Rejected(ErrorCode.STALE_EPOCH, why)
        return self._misfit(register) or self._full(register)

    def _misfit(self, register: Register) -> Rejected | None:
        """The fault in the registration's own values, if there is one."""
        settings = self._settings
        for name in (register.group_id, register.consumer_id):
            if not 0 < len(name.encode()) <= settings.max_name_bytes:
                why = f"group and consumer ids have 1 to {settings.max_name_bytes} bytes"
                return Rejected(ErrorCode.INVALID_SUBSCRIPTION, why)
        interval, timeout = register.ping_interval_ms, register.session_timeout_ms
        if interval < settings.min_ping_interval_ms or register.max_ping_retries < 0:
            why = (
                f"ping_interval_ms is at least {settings.min_ping_interval_ms}, retries at least 0"
            )
            return Rejected(ErrorCode.INVALID_TIMEOUTS, why)
        # A request renews the lease only to session_timeout after the answer to the one before.
        if not 2 * interval < timeout <= settings.max_session_timeout_ms:
            why = (
                f"session_timeout_ms is more than 2 ping_interval_ms ({2 * interval}), and at most "
                f"{settings.max_session_timeout_ms}"
            )
            return Rejected(ErrorCode.INVALID_TIMEOUTS, why)
        return None

    def _full(self, register: Register) -> Rejected | None:
        """Which limit would be passed, if any."""
        group = self._groups.get(register.group_id)
        if group is None:
            if len(self._groups) >= self._settings.max_groups:
                return Rejected(
                    ErrorCode.GROUP_FULL, f"{self._settings.max_groups} groups are active"
                )
            return None
        is_known = register.consumer_id in group.expected
        waited_for = 0 if is_known else len(group.expected)  # who was here before comes first
        taken = len(group.members) + len(group.joining) + waited_for
        if taken >= self._settings.max_members_per_group:
            why = f"the group has {self._settings.max_members_per_group} members"
            return Rejected(ErrorCode.GROUP_FULL, why)
        return None

    def _read(self, register: Register) -> Subscription | Rejected:
        """The subscription of a registration, or the reason why it may not have it."""
        try:
            subscription = parse(register.topic_count)
        except InvalidSubscription as problem:
            return Rejected(ErrorCode.INVALID_SUBSCRIPTION, str(problem))
        group = self._groups.get(register.group_id)
        members = () if group is None else (*group.members.values(), *group.joining.values())
        different = {id(subscription), *(id(member.subscription) for member in members)}
        if len(different) > self._settings.max_subscriptions_per_group:
            why = f"the group has {len(different) - 1} different subscriptions"
            return Rejected(ErrorCode.GROUP_FULL, why)
        return subscription

    def _refuse(self, number: int, frame: Frame, refused: Rejected) -> None:
        """Answer why not, and close the channel."""
        register = frame.message
        assert isinstance(register, Register)
        self._outbox.report(
            What.REGISTRATION_REFUSED, register.group_id, consumer=register.consumer_id,
            error=refused.error.name, why=refused.why,
        )  # fmt: skip
        response = RegisterResponse(refused.error)
        self._server.respond(number, response, frame, error=refused.error)
        self._server.close(number, f"registration refused: {refused.why}")

    # ── Admission ───────────────────────────────────────────────────────────────────────────

    def _member(self, number: int, frame: Frame, subscription: Subscription) -> Registered:
        register = frame.message
        assert isinstance(register, Register)
        self.registrations += 1
        return Registered(
            registration=f"{self._context.epoch}-{self.registrations}",
            channel=number,
            group=register.group_id,
            consumer_id=register.consumer_id,
            topic_count=register.topic_count,
            subscription=subscription,
            auto_commit=register.auto_commit,
            ping_interval_ms=register.ping_interval_ms,
            max_ping_retries=register.max_ping_retries,
            session_timeout_ms=register.session_timeout_ms,
            connection=frame.correlation_id,
            former=(register.former or ())[-FORMER_HEEDED:],
            brought=register.brought or (),
        )

    def _store_subscription(self, group: Group, applicant: Applicant) -> None:
        member = applicant.member
        path = self._paths.subscription(group.name, member.consumer_id)
        stored = partial(self._subscription_stored, group, applicant)
        self._store.write(group.name, {path: member.topic_count.encode()}, stored)

    def _subscription_stored(
        self, group: Group, applicant: Applicant, outcome: StoreResult
    ) -> None:
        number = applicant.member.channel
        if self.applicants.get(number) is not applicant:
            return  # it is gone, and its subscription was, or will be, removed
        if outcome is not StoreResult.DONE:
            why = f"its subscription cannot be stored: {outcome.value}"
            self._refuse(number, applicant.frame, Rejected(ErrorCode.NOT_COORDINATOR, why))
            self.closed(number)
        else:
            self._look(group, applicant, self._let_in)  # again: of two at once, one sees the other

    def _look(self, group: Group, applicant: Applicant, then: Then) -> None:
        """Before a group has members, look if it is another protocol's; go on if it is not."""
        if group.members or group.expected:
            then(group, applicant)
        else:
            ids = Children(self._paths.ids(group.name))
            self._outbox.ask(ids, partial(self._strangers_listed, group, applicant, then))

    def _strangers_listed(
        self, group: Group, applicant: Applicant, then: Then, answer: Answer
    ) -> None:
        number = applicant.member.channel
        if self.applicants.get(number) is not applicant:
            return
        names = answer.names if isinstance(answer, Names) else ()
        above = self._paths.ids(group.name)
        if names:
            why = group_nodes.refusal(group.name, names, above)
            refused = Rejected(ErrorCode.OTHER_PROTOCOL, why)
        elif isinstance(answer, Names) or answer == Refusal(Why.NO_NODE):
            then(group, applicant)
            return
        else:
            refused = Rejected(ErrorCode.NOT_COORDINATOR, f"{above} cannot be read")
        self._refuse(number, applicant.frame, refused)
        self.closed(number)

    def _let_in(self, group: Group, applicant: Applicant) -> None:
        """It becomes a member, as soon as its group admits any, and an event has room for that."""
        if self._misses_offsets(group, applicant):
            return
        is_full = self._outbox.is_full()
        if is_full:
            self._admit_later(group)
        if is_full or group.is_closed():
            applicant.stored = True
        else:
            self._admit(group, applicant)

    def _admit(self, group: Group, applicant: Applicant) -> None:
        """A consumer is a member from now on."""
        member = applicant.member
        if member.brought and self._misses_offsets(group, applicant):
            return  # the group was in doubt since they were read
        if applicant.resumes is not None and not self._adopts(group, applicant):
            return
        del self.applicants[member.channel]
        del group.joining[member.channel]
        group.members[member.registration] = member
        self._server.registered(member.channel, member)
        share = group.share_of(member.registration) if member.resumed else ()
        accepted = member.step(
            handles(applicant.frame.message), member.acked,
            self._context.offsets.stored(group.name, share), "accepted",
        )  # fmt: skip
        brought = self._brought.take(group, member)
        self._outbox.emit(replace(accepted, former=member.former, brought=brought))
        response = RegisterResponse(ErrorCode.NONE, name_told(applicant))
        self._server.respond(member.channel, response, applicant.frame, generation=group.generation)
        self._admitted(group, member)

    # ── Registrations that go on ────────────────────────────────────────────────────────────────

    def _misses_offsets(self, group: Group, applicant: Applicant) -> bool:
        """
        True if offsets of what it consumes, or has, are not read yet: they are, then it is let in.

        It says further ones, now or as soon as it is a member: none may go back.
        """
        name, member = applicant.resumes, applicant.member
        if member.brought and not group.loaded:
            applicant.stored = True  # whose the partitions are is in doubt
            return True
        offsets = self._context.offsets
        missing = [
            *(offsets.missing(group.name, group.share_of(name)) if name is not None else ()),
            *(self._brought.unread(group, member) if member.brought else ()),
        ]
        if missing:
            offsets.load(group.name, missing, partial(self._offsets_read, group, applicant))
        return bool(missing)

    def _offsets_read(self, group: Group, applicant: Applicant, done: bool) -> None:
        number = applicant.member.channel
        if self.applicants.get(number) is not applicant:
            return
        if done:
            self._let_in(group, applicant)
        else:
            refused = Rejected(ErrorCode.NOT_COORDINATOR, "the offsets cannot be read")
            self._refuse(number, applicant.frame, refused)
            self.closed(number)

    def _adopts(self, group: Group, applicant: Applicant) -> bool:
        """Take it for the registration that it resumes; or refuse it, if that is over."""
        member, name = applicant.member, applicant.resumes
        assert name is not None, "who calls has looked"
        generation = applicant.frame.generation
        before = group.members.get(name)
        if before is not None and before.consumer_id == member.consumer_id:
            self._server.fail(before.channel, "its consumer resumes over another connection")
        if self.applicants.get(member.channel) is not applicant:
            return False  # that has ended a rebalance, and it was let in
        if group.is_closed():  # nobody else was waited for
            applicant.stored = True
            return False
        if name in group.members or not group.knows(name, member.consumer_id, generation):
            why = f"it consumes in generation {generation}, of {group.generation}"
            self._outbox.emit(member.step("handle_resume", outcome=ErrorCode.STALE_GENERATION.name))
            rejected = Rejected(ErrorCode.STALE_GENERATION, why)
            self._refuse(member.channel, applicant.frame, rejected)
            self.closed(member.channel)
            return False
        member.registration, member.acked = name, generation
        member.resumed = member.may_fetch = True
        self._server.resumed(member.channel)
        return True


def handles(register: Message) -> CoordinatorAction:
    """The step that takes a Register, or refuses it."""
    assert isinstance(register, Register)
    return "handle_register" if register.resumes is None else "handle_resume"


def name_told(applicant: Applicant) -> str | None:
    """The name of its registration that an applicant is told, if its version has room for that."""
    register = applicant.frame.message
    assert isinstance(register, Register)
    return None if register.former is None else applicant.member.registration
