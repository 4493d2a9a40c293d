"""The SOAP service, whatever transport a message comes by: the way of one message, in order.

    step       where it is                   what it does
    ---------  ----------------------------  -------------------------------------------------
    identify   gateway.security.identify     tells the principal; asked by the transport, for it
                                             decides already where a message may be read
    decrypt    gateway.soap.message_security decrypts what is encrypted in it
    read       gateway.soap.read             makes octets a request
    identify   gateway.soap.message_security tells the principal anew, where the message says it
    reliable   gateway.soap.reliable         keeps sequences: once, in order, acknowledged
    authorise  gateway.security.authorise    says whether the principal may ask for that
    deposit    gateway.soap.deposit          keeps what is sent to a mailbox; else:
    execute    gateway.soap.registry         finds the handler that carries the request out
    answer     gateway.soap.answers          writes the response or the fault, which goes on the
                                             connection or elsewhere (gateway.soap.replies)
    secure     gateway.soap.answer_security  signs and encrypts that, where it is demanded

`SoapService._handle` and `SoapService._proceed` take the steps in this order.
"""

import contextlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import structlog

from adapters import AdapterUnavailable
from adapters.tenant_admission import TenantAdmission
from filters import DocumentLimits, Reason, Refused
from filters.documents import DEFAULT_LIMITS
from gateway.egress import read_hops
from gateway.exchange import ACCEPTED, Inbound, Reply, Result
from gateway.mailboxes.deposits import Deposits
from gateway.observing.samples import Sample, counters
from gateway.parsing import Parsing
from gateway.security.audit import NO_AUDIT, REFUSALS, Audit, note_refusal
from gateway.security.authorise import authorise_request, rights_for
from gateway.security.keys import public_id
from gateway.security.principals import Principal
from gateway.security.resource_addresses import ResourceAddress, ResourceKind, addressed
from gateway.security.rights import Right
from gateway.soap.answers import Answers
from gateway.soap.deposit import deposited, is_deposit, keeps_unread
from gateway.soap.endpoint_rules import rules_at
from gateway.soap.read import STRICT, read_inbound, read_unopened
from gateway.soap.refusal_log import RefusalLog
from gateway.soap.registry import Registry
from gateway.soap.reliable import PassOn, ReliableStep
from gateway.soap.replies import Replies
from gateway.store import StoreUnavailable, answered_in_time
from mediation import names
from mediation.model.requests import (
    Context,
    DescribeEvents,
    EndpointRules,
    GetCurrentMessage,
    GetProperties,
    GetStatus,
    Incoming,
    ListSubscriptions,
    Named,
    Publish,
    QueryProperties,
    Rejected,
    Request,
    Sequences,
    Subscribe,
    Subscribed,
    Take,
    TakeFor,
    TopicRules,
)
from mediation.notification.properties import write_filter
from mediation.reliable_messaging import Bound

_log = structlog.get_logger("dragoman.soap")
T = TypeVar("T")


if TYPE_CHECKING:  # Imported where there is a file of identities.
    from gateway.soap.answer_security import AnswerForm, AnswerSecurity
    from gateway.soap.message_security import MessageSecurity
    from gateway.soap.receipts import Receipts

UNIDENTIFIED = "\n"
"""The tenant as which a message is admitted whose sender only WS-Security in it names, until that
is verified. No tenant has this name."""
_WSSE = names.WSSE.encode()
_CHANGES = frozenset({Right.SUBSCRIBE, Right.MANAGE, Right.OPERATE})
"""Rights of which the audit log notes each use but fetching and asking."""
_FETCHES = (
    Take, TakeFor, GetStatus, ListSubscriptions, GetCurrentMessage, DescribeEvents, GetProperties,
    QueryProperties,
)  # fmt: skip


class SoapService:
    """Answers messages.

    Attributes:
        requests: How many there were, by operation.
        refusals: How many messages were refused, by reason.
        receipts: Signs receipts; None where the gateway has no key for that.
        admission: Says when a request of a tenant is read.
        bound: What sequences must be bound to.
        draining: Nothing new is taken: the gateway is stopping.
    """

    def __init__(
        self,
        registry: Registry,
        parsing: Parsing,
        deposits: Deposits,
        replies: Replies,
        *,
        reliable: ReliableStep | None = None,
        rules: Callable[[str], EndpointRules] = rules_at,
        limits: DocumentLimits = DEFAULT_LIMITS,
        topics: Callable[[str], TopicRules] = lambda _: STRICT,
        audit: Audit | None = None,
        security: "MessageSecurity | None" = None,
        receipts: "Receipts | None" = None,
        answer_security: "AnswerSecurity | None" = None,
        admission: TenantAdmission | None = None,
        bound: Bound = Bound.NOTHING,
    ) -> None:
        self.admission = admission or TenantAdmission()
        self._registry = registry
        self._parsing = parsing
        self._deposits = deposits
        self._replies = replies
        self._reliable = reliable or PassOn()
        self._rules = rules
        self._limits = limits
        self._topics = topics
        self._audit = audit or NO_AUDIT
        self._security = security
        self.receipts = receipts
        self._answer_security = answer_security
        self.bound = bound
        self._answers = Answers(replies, parsing)
        self.requests: dict[str, int] = {}
        self.refusals = self._answers.refusals
        self._refusal_log = RefusalLog()
        self.draining = False

    async def handle(self, inbound: Inbound) -> Reply:
        """Do what *inbound* asks for; it raises nothing."""
        tenant = inbound.principal.tenant
        if not self.admission.needed(tenant):
            return await self._handle(inbound, None)
        if self._security is not None and not inbound.principal.name and _WSSE in inbound.octets:
            tenant = UNIDENTIFIED
        async with AsyncExitStack() as admitted:
            await admitted.enter_async_context(self.admission.request(tenant, len(inbound.octets)))
            return await self._handle(inbound, admitted)

    async def _handle(self, inbound: Inbound, admitted: AsyncExitStack | None) -> Reply:
        """*admitted* is under way until it is closed; None where nothing has to be admitted."""
        context = None
        identifiers: tuple[str, ...] = ()
        rights: frozenset[Right] | None = None
        hidden: Callable[[], Refused] | None = None
        received = inbound.octets
        try:
            if self._security is not None and self._security.may_decrypt(inbound.octets):
                decrypted = await self._security.decrypt(inbound)
                inbound, hidden = decrypted.inbound, decrypted.hidden
            try:
                incoming = await read_inbound(
                    inbound,
                    self._parsing,
                    self._rules,
                    limits=self._limits,
                    topics=self._topics,
                )
            except Rejected as rejected:
                resource = addressed(inbound.path, rejected.context.headers.to)
                if hidden is not None or resource is None or not keeps_unread(resource, rejected):
                    raise
                return await self._keep_unread(inbound, rejected.context, resource)
            context, identifiers = incoming.context, incoming.named.identifiers
            rights = rights_for(type(incoming.request))
            identified = await self._identify(inbound, context)
            if identified is not inbound:
                inbound = identified
                await self._admit_anew(inbound, admitted)
            if hidden is not None:
                if not inbound.signed:
                    raise hidden()
                hidden = None
            answering = self._reliable(inbound, incoming, self._proceed)
            if self.receipts is not None and self.receipts.is_due(inbound, incoming):
                reply = await answered_in_time(answering, too_late=_give_back)
                reply = await self._with_receipt(self.receipts, received, inbound, incoming, reply)
            elif isinstance(incoming.request, Publish) and context.reliable is None:
                reply = await answering  # What of it needs the store has a deadline of its own.
            else:
                reply = await answered_in_time(answering, too_late=_give_back)
            if self._answer_security is None or not reply.body:
                return reply
            return await self._secured(self._answer_security, reply, inbound, context, rights)
        # Answered here, for a name that outlived its handler would keep the message in memory.
        except Rejected as rejected:
            if hidden is not None:  # Not even its specification is said.
                return await self._refuse_unopened(inbound, received, hidden())
            return await self._refuse_unread(inbound, rejected, identifiers)
        except Refused as refused:
            if hidden is not None:
                return await self._refuse_unopened(inbound, received, hidden())
            if context is None and refused.reason is not Reason.UNAVAILABLE:
                return await self._refuse_unopened(inbound, received, refused)
            return await self._refuse(inbound, refused, context, identifiers, rights)
        except Exception:
            _log.exception("soap.internal-error")
        broken = Refused(Reason.INTERNAL, "Something went wrong here; it is in our log.")
        return await self._refuse(inbound, broken, context, identifiers, rights)

    @staticmethod
    async def _with_receipt(
        receipts: "Receipts", received: bytes, inbound: Inbound, incoming: Incoming, reply: Reply
    ) -> Reply:
        """*reply* signed; where it cannot be, it is not given, and what it hands out given back."""
        try:
            return await receipts.sign(received, inbound, incoming, reply)
        except BaseException:
            await _give_back(reply)
            raise

    @staticmethod
    async def _secured(
        security: "AnswerSecurity",
        reply: Reply,
        inbound: Inbound,
        context: Context,
        rights: frozenset[Right] | None,
    ) -> Reply:
        """*reply* signed and encrypted as is demanded, in the same way."""
        form = security.form(inbound.path, context.headers.to, rights, asked=inbound.asked)
        try:
            return await security.secure(reply, inbound, form)
        except BaseException:
            await _give_back(reply)
            raise

    async def _admit_anew(self, inbound: Inbound, admitted: AsyncExitStack | None) -> None:
        """Admit *inbound* as a request of the tenant that WS-Security in it has proved."""
        tenant = inbound.principal.tenant
        if self.admission.needed(tenant) and admitted is not None:
            await admitted.aclose()
            await admitted.enter_async_context(self.admission.request(tenant, len(inbound.octets)))

    async def _identify(self, inbound: Inbound, context: Context) -> Inbound:
        """*inbound* as a message of whom its Security header proves.

        Raises:
            As `MessageSecurity.identify`.
        """
        if self._security is None or names.WSSE not in context.header_namespaces:
            return inbound
        return await self._security.identify(inbound, context)

    async def _refuse_unread(
        self, inbound: Inbound, rejected: Rejected, identifiers: tuple[str, ...]
    ) -> Reply:
        """The reply to a message that cannot be read further than its *rejected* context. In a
        sequence it has its turn, if it is by whom the sequence is bound to."""
        context, security = rejected.context, self._answer_security
        to_encrypt = False
        if security is not None:
            form = security.form(inbound.path, context.headers.to, None, asked=inbound.asked)
            to_encrypt = form.encrypted
        if (context.reliable is not None or to_encrypt) and inbound.signer is None:
            try:
                inbound = await self._identify(inbound, context)
            except Refused as unproved:
                return await self._refuse(inbound, unproved, context, identifiers)
        return await self._refuse(inbound, rejected.refused, context, identifiers)

    async def _refuse_unopened(self, inbound: Inbound, received: bytes, refused: Refused) -> Reply:
        """The reply to a message of which nothing is known, or told, but its header as it was
        *received*: which message it is that was refused."""
        unopened = replace(inbound, octets=received)
        try:
            context = await read_unopened(unopened, self._parsing, self._limits)
        except Refused:
            context = None
        return await self._refuse(inbound, refused, context, ())

    async def _refuse(
        self,
        inbound: Inbound,
        refused: Refused,
        context: Context | None,
        identifiers: tuple[str, ...],
        rights: frozenset[Right] | None = None,
    ) -> Reply:
        """The reply to *inbound*, which is *refused*: what its sequence makes of it, too. *rights*
        are those of which it needs one, where it could be read."""
        context = context or Context(inbound.hint)
        if refused.reason in REFUSALS:
            asked = context.operation.label if context.operation is not None else "unknown"
            what = _id_of(addressed(inbound.path, context.headers.to))
            note_refusal(self._audit, inbound.principal, asked, what, refused)
        if context.reliable is not None and self._reliable.suppresses(inbound.principal, refused):
            return ACCEPTED[context.soap]
        rules, receipts, security = self._rules(inbound.path), self.receipts, self._answer_security
        begin = rules.fault_text(refused, context.operation, identifiers)
        form = None
        # Who sends too much costs no signature.
        if security is not None and refused.reason is not Reason.RATE:
            form = security.form(inbound.path, context.headers.to, rights, asked=inbound.asked)
            told = security.may_be_told(refused, inbound, form)
            if told is not refused:
                refused, begin = told, ""
        reply = self._answers.refuse(
            refused,
            context,
            inbound.principal,
            on_connection=False,
            begin=begin,
            status_of_calls=rules.calls.fault_status,
            sign=self._signing(inbound, context, form),
        )
        if context.reliable is not None:
            with contextlib.suppress(StoreUnavailable):
                reply = await answered_in_time(
                    self._reliable.refused(inbound, context, refused, reply)
                )
        try:
            if receipts is not None:
                reply = await receipts.sign_fault(inbound, context, reply)
            if security is not None and form is not None:
                reply = await security.secure(reply, inbound, form)
        except Refused as unable:  # What it acknowledges is acknowledged when it comes again.
            return self._answers.refuse(unable, context, inbound.principal, on_connection=True)
        return reply

    def _signing(
        self, inbound: Inbound, context: Context, form: "AnswerForm | None"
    ) -> Callable[[bytes], Awaitable[bytes]] | None:
        """What signs and encrypts an answer that is sent elsewhere, as on the connection."""
        security, receipts = self._answer_security, self.receipts
        sign = receipts.signing_for(inbound, context) if receipts is not None else None
        secure = None
        if security is not None and form is not None:
            secure = security.securing(inbound, form)
        if sign is None or secure is None:
            return sign or secure
        first, then = sign, secure

        async def both(body: bytes) -> bytes:
            return await then(await first(body))

        return both

    async def _proceed(self, inbound: Inbound, incoming: Incoming) -> Reply:
        """The steps behind "reliable"."""
        context = incoming.context
        operation = context.operation.label if context.operation is not None else "unknown"
        self.requests[operation] = self.requests.get(operation, 0) + 1
        resource = addressed(inbound.path, context.headers.to)
        # What was sent in a sequence is still acknowledged.
        if self.draining and (resource is None or resource.kind is not ResourceKind.SEQUENCE):
            raise AdapterUnavailable("The gateway is stopping.")
        kept = resource is not None and is_deposit(resource, context.operation)
        given_out = kept or (resource is not None and resource.kind in self._registry.own_kinds)
        authorise_request(inbound.principal, incoming.request, given_out=given_out)
        if self._security is not None:
            self._security.check(inbound, incoming.request, resource, context.headers.to)
        form, security = None, self._answer_security
        if security is not None:
            rights = rights_for(type(incoming.request))
            form = security.form(inbound.path, context.headers.to, rights, asked=inbound.asked)
            security.check(inbound, form)
        if kept and resource is not None:
            await answered_in_time(self._deposits.deposit(inbound, resource, incoming.named))
            return deposited(resource, context)
        if inbound.hops is not None:
            read_hops(inbound.hops)  # A message that goes in circles ends here.
        elsewhere = self._replies.address_of_response(incoming, inbound.principal)
        request = incoming.request
        result = await self._registry.handler(request, resource)(request, incoming, inbound)
        self._note_change(inbound, request, result, operation, resource)
        if result is None:
            return ACCEPTED[context.soap]
        sign = self._signing(inbound, context, form) if elsewhere is not None else None
        return await self._answers.answer(result, incoming, inbound, elsewhere, sign)

    async def _keep_unread(
        self, inbound: Inbound, context: Context, resource: ResourceAddress
    ) -> Reply:
        """Deposit what could not be read, and was sent to *resource*, a mailbox.

        Raises:
            Rejected: It is not kept.
        """
        try:
            if self.draining:
                raise AdapterUnavailable("The gateway is stopping.")
            if self._security is not None:
                self._security.check(inbound, Publish(()), resource, context.headers.to)
                # Its sender is not asked who it is, but may have said its password.
                inbound = await self._security.without_passwords(inbound)
            await answered_in_time(self._deposits.deposit(inbound, resource, Named()))
        except Refused as refused:
            raise Rejected(context, refused) from refused
        reply = deposited(resource, context)
        if self._answer_security is None or not reply.body:
            return reply
        return await self._secured(self._answer_security, reply, inbound, context, None)

    # For transports and routes that take a part of the way.

    def sequences_at(self, path: str) -> Sequences:
        """What the endpoint at *path* does with sequences."""
        return self._rules(path).sequences

    async def execute(self, inbound: Inbound, incoming: Incoming) -> Result:
        """Authorise and execute a request that came in another form than SOAP.

        Raises:
            Refused: with nothing changed.
        """
        request = incoming.request
        resource = addressed(inbound.path, None)
        operation = type(request).__name__
        try:
            authorise_request(inbound.principal, request)
            if self._security is not None:
                rights = rights_for(type(request))
                self._security.demands.check_plain(inbound.path, *rights)
        except Refused as refused:
            note_refusal(self._audit, inbound.principal, operation, _id_of(resource), refused)
            raise
        result = await self._registry.handler(request)(request, incoming, inbound)
        self._note_change(inbound, request, result, operation, resource)
        return result

    def _note_change(
        self,
        inbound: Inbound,
        request: Request,
        response: object,
        did: str,
        resource: ResourceAddress | None,
    ) -> None:
        """Have the audit log note a request that changed something; publications are no changes."""
        if rights_for(type(request)) & _CHANGES and not isinstance(request, _FETCHES):
            what, query = _id_of(resource), ""
            if isinstance(response, Subscribed):
                what = f"subscriptions {response.subscription.id}"
            if self._audit.documents and isinstance(request, Subscribe):
                query = write_filter(request.filter)
            self._audit.note(inbound.principal, did, what, query=query)

    async def parse(
        self, octets: int, work: Callable[[set[str] | None], T], principal: Principal
    ) -> T:
        """Run *work* of a transport, which parses *octets*, where that may be done.

        Raises:
            Refused: ``UNAVAILABLE``: there is too much to do.
        """
        return await self._parsing.run_parser(
            octets, work, trusted=not principal.limits.quotas, owner=principal.owner
        )

    def refuse(self, rejected: Rejected, sender: Principal) -> Reply:
        """The reply to a message of *sender* that a transport could not take apart."""
        self.note_unproved(sender, "unknown", rejected.refused)
        return self._answers.refuse(rejected.refused, rejected.context, sender, on_connection=True)

    async def refuse_signed(self, rejected: Rejected, sender: Principal, path: str = "") -> Reply:
        """The same, signed where what is answered to requests at *path* is."""
        reply, security = self.refuse(rejected, sender), self._answer_security
        if security is None or rejected.refused.reason is Reason.RATE:
            return reply
        if not security.form(path, rejected.context.headers.to, None).signed:
            return reply
        with contextlib.suppress(Refused):
            return await security.sign(reply, sender)
        return reply

    def note_unproved(self, sender: Principal, did: str, refused: Refused) -> None:
        """Have the audit log note credentials of *sender* that a transport *refused*, before it was
        known what is asked for."""
        note_refusal(self._audit, sender, did, "", refused)

    def metrics(self) -> Iterator[Sample]:
        """Requests, and what became of them."""
        yield counters("requests", "SOAP requests, by operation.", "operation", self.requests)
        yield counters("refusals", "Requests refused, by reason.", "reason", self.refusals)

    def count_refusal(self, reason: str, text: str, *, peer: str, path: str) -> None:
        """Count one request more as refused for *reason*, by a transport, and log it, if there are
        few."""
        self._answers.count_refusal(reason)
        self._refusal_log.say(reason, text, peer=peer, path=path)


async def _give_back(reply: Reply) -> None:
    """Be done with a reply that came too late: what it hands out is nobody's."""
    if reply.handed_over is not None:
        await reply.handed_over(False)


def _id_of(resource: ResourceAddress | None) -> str:
    """The id of a resource for people; its key is a secret."""
    if resource is None or resource.key is None:
        return ""
    return f"{resource.kind.value.strip('/').lower()} {public_id(resource.key)}"
