"""A CRM with the client that openapi-python-client generates."""

import json
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar, assert_never

import httpx

from partner import models
from partner.api.consultations import cancel_consultation, create_consultation, get_consultation, get_consultation_note, list_consultations
from partner.api.wallet import create_topup_session, get_wallet
from partner.models import CreateConsultationBadRequestErrorCode as BadRequest
from partner.models import CreateConsultationConflictErrorCode as Conflict
from partner.types import UNSET
from partner_sdk import Event, LinkAgainError, MemoryTokenStore, PartnerApp, each, new_idempotency_key, read_webhook

T = TypeVar("T")

Failure = (
    models.CreateConsultationBadRequestError
    | models.CreateConsultationConflictError
    | models.InsufficientScopeError
    | models.InternalError
    | models.RateLimitedError
    | models.UnauthorizedError
    | models.UnavailableError
    | models.ValidationError
)


def explain(error: Failure) -> str:
    """Says what to tell the client's adviser; every error of the operation has its case."""
    match error:
        case models.CreateConsultationConflictError(code=code):
            match code:
                case Conflict.INSUFFICIENT_FUNDS:
                    return f"top up at {error.action_url}"
                case Conflict.PHONE_REQUIRED:
                    return f"verify a phone number at {error.action_url}"
                case Conflict.IDEMPOTENCY_CONFLICT:
                    return "the key was used for something else"
                case Conflict.IDEMPOTENCY_IN_PROGRESS:
                    return "the first try is still under way"
                case _:
                    assert_never(code)
        case models.CreateConsultationBadRequestError(code=BadRequest.IDEMPOTENCY_KEY_REQUIRED):
            return "our fault: no key"
        case models.CreateConsultationBadRequestError():
            return "our fault: malformed"
        case models.ValidationError(issues=issues):
            return ", ".join(f"{issue.path}: {issue.code}" for issue in issues)
        case models.UnauthorizedError() | models.InsufficientScopeError():
            return "link again"
        case models.RateLimitedError() | models.InternalError() | models.UnavailableError():
            return "later"
        case _:
            assert_never(error)


def describe(event: Event) -> str:
    """Says a line for the timeline of a consultation; every event has its case."""
    match event:
        case models.ConsultationCreatedEvent(data=created):
            return f"created for {created.price_cents} cents"
        case models.ConsultationPaymentAuthorizedEvent():
            return "money reserved"
        case models.ConsultationMatchingEvent():
            return "looking for a lawyer"
        case models.ConsultationAssignedEvent():
            return "a lawyer has it"
        case models.ConsultationCallStartedEvent():
            return "in the call"
        case models.ConsultationCallEndedEvent(data=talk):
            return f"talked for {talk.duration_sec} s"
        case models.ConsultationCompletedEvent():
            return "done"
        case models.ConsultationNoteAvailableEvent():
            return "there is a note"
        case models.ConsultationPendingCallbackEvent(data=pending):
            return f"called back by {pending.callback_due_at}"
        case models.ConsultationCancelledEvent(data=cancelled):
            return f"cancelled: {cancelled.end_reason}"
        case models.ConsultationRefundedEvent(data=refunded):
            return f"{refunded.refunded_cents} cents are back"
        case models.ConsultationExpiredEvent(data=expired):
            return f"expired: {expired.end_reason}"
        case models.WebhookPingEvent():
            return "the service tries our address"
        case _:
            assert_never(event)


def forgetful(event: Event, code: Conflict) -> None:
    """Shows that a case that is forgotten is refused: mypy would complain about a comment that ignores nothing."""
    if not isinstance(event, models.ConsultationExpiredEvent):
        assert_never(event)  # type: ignore[arg-type]
    if code is not Conflict.PHONE_REQUIRED:
        assert_never(code)  # type: ignore[arg-type]
    models.CreateConsultationRequest(competence="TAX", subject="x")  # type: ignore[call-arg]


def ask(line: str) -> str:
    """Writes a line for whoever plays the client and returns the line that comes back."""
    print(line, flush=True)
    answer = sys.stdin.readline()
    if not answer:
        raise RuntimeError(f"nobody answered {line}")
    return answer.rstrip("\n")


def expect(what: str, is_: object, wanted: object) -> None:
    if is_ != wanted:
        raise RuntimeError(f"{what} is {is_}, not {wanted}")


def until(what: str, read: Callable[[], bool]) -> None:
    """Reads until the answer is yes; gives up after a minute."""
    end = time.monotonic() + 60
    while not read():
        if time.monotonic() > end:
            raise RuntimeError(f"waited a minute for {what}")
        time.sleep(0.25)


def sure(kind: type[T], answer: object) -> T:
    """The answer, which is no error."""
    if not isinstance(answer, kind):
        raise RuntimeError(f"not a {kind.__name__}: {answer}")
    return answer


class Counting(httpx.HTTPTransport):
    """Knows what was sent to the service."""

    def __init__(self) -> None:
        super().__init__()
        self.paths: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        return super().handle_request(request)


def play() -> None:
    env, store, sent = os.environ, MemoryTokenStore(), Counting()
    redirect_uri = env["PARTNER_REDIRECT_URI"]
    app = PartnerApp(
        base_url=env["PARTNER_BASE_URL"], issuer=env["PARTNER_AUTHORIZE_URL"].removesuffix("/api/oauth/authorize"), redirect_uri=redirect_uri,
        client_id=env["PARTNER_CLIENT_ID"], client_secret=env["PARTNER_CLIENT_SECRET"], store=store, transport=lambda: sent)
    url, pending = app.begin_link("profile:read wallet:read wallet:topup consultations:read consultations:write notes:read offline_access")
    app.finish_link("python", ask(f"OPEN {url}"), pending)
    client = app.client("python")

    def request(ref: str, competence: str = "HOUSING") -> models.CreateConsultationRequest:
        return models.CreateConsultationRequest(
            competence=competence, subject="Deposit not returned", withdrawal_waiver_acknowledged=True, external_ref=ref)

    key = new_idempotency_key()
    refused = sure(models.CreateConsultationConflictError, create_consultation.sync(client=client, body=request("python-1"), idempotency_key=key))
    expect("told to top up", explain(refused).startswith("top up at http"), True)

    page = sure(models.TopupSession, create_topup_session.sync(
        client=client, body=models.CreateTopupSessionRequest(amount_cents=4000, return_url=redirect_uri)))
    ask(f"OPEN {page.checkout_url}")
    until("the money", lambda: sure(models.Wallet, get_wallet.sync(client=client)).available_cents == 4000)

    made = sure(models.Consultation, create_consultation.sync(client=client, body=request("python-1"), idempotency_key=key))
    again = create_consultation.sync_detailed(client=client, body=request("python-1"), idempotency_key=key)
    expect("the consultation of the same key", sure(models.Consultation, again.parsed).id, made.id)
    expect("replayed", again.headers["Idempotent-Replayed"], "true")
    second = sure(models.Consultation, create_consultation.sync(client=client, body=request("python-2"), idempotency_key=new_idempotency_key()))
    listed = each(lambda cursor: sure(models.ConsultationPage, list_consultations.sync(client=client, limit=1, cursor=cursor or UNSET)))
    expect("the list, newest first", [item.id for item in listed], [second.id, made.id])
    cancelled = sure(models.Consultation, cancel_consultation.sync(second.id, client=client))
    expect("status", cancelled.status, models.ConsultationStatus.CANCELLED)

    until("the call", lambda: sure(models.Consultation, get_consultation.sync(made.id, client=client)).status is models.ConsultationStatus.COMPLETED)
    note = sure(models.NotePreview, get_consultation_note.sync(made.id, client=client))
    expect("the note is of", note.consultation_id, made.id)
    sure(models.NotCancellableError, cancel_consultation.sync(made.id, client=client))
    sure(models.NotFoundError, get_consultation.sync("con_test_nobody", client=client))
    invalid = create_consultation.sync(client=client, body=request("python-3", competence="NONE"), idempotency_key=new_idempotency_key())
    expect("what to do", explain(sure(models.ValidationError, invalid)), "competence: not_in_catalog")

    for received in json.loads(ask("EVENTS")):
        webhook = read_webhook(env["PARTNER_WEBHOOK_SECRET"], received["headers"], received["body"].encode())
        if webhook.event:
            print("EVENT", describe(webhook.event))

    # The access token expires, and many calls meet it: they refresh once.
    before = store.update("python", lambda tokens: tokens and replace(tokens, expires_at=0.0))
    sent.paths.clear()
    with ThreadPoolExecutor(20) as pool:
        for wallet in pool.map(lambda _: get_wallet.sync(client=client), range(20)):
            sure(models.Wallet, wallet)
    expect("refreshes of 20 calls", sent.paths.count("/api/oauth/token"), 1)
    tokens = store.read("python")
    expect("the refresh token is another", tokens and before and tokens.refresh_token != before.refresh_token, True)

    app.unlink("python")
    store.update("python", lambda _: tokens)  # as of a worker that has not heard of it
    try:
        get_wallet.sync(client=client)
        raise RuntimeError("it works after the disconnection")
    except LinkAgainError:
        pass
    print("DONE")


if __name__ == "__main__":
    play()
