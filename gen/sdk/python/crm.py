"""A CRM with the client that openapi-python-client generates."""

import base64
import hashlib
import json
import os
import secrets
import sys
import time
import urllib.parse
from collections.abc import Callable
from typing import Any, TypeVar, assert_never

from partner import AuthenticatedClient, Client, models
from partner.api.consultations import cancel_consultation, create_consultation, get_consultation, get_consultation_note, list_consultations
from partner.api.o_auth import issue_token, revoke_token
from partner.api.wallet import create_topup_session, get_wallet
from partner.models import CreateConsultationConflictErrorCode as Conflict
from partner.models import CreateConsultationBadRequestErrorCode as BadRequest

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

Event = (
    models.ConsultationCreatedEvent
    | models.ConsultationPaymentAuthorizedEvent
    | models.ConsultationMatchingEvent
    | models.ConsultationAssignedEvent
    | models.ConsultationCallStartedEvent
    | models.ConsultationCallEndedEvent
    | models.ConsultationCompletedEvent
    | models.ConsultationNoteAvailableEvent
    | models.ConsultationPendingCallbackEvent
    | models.ConsultationCancelledEvent
    | models.ConsultationRefundedEvent
    | models.ConsultationExpiredEvent
    | models.WebhookPingEvent
)

# The generator makes a class of each event and leaves their union out, because no operation answers with it.
EVENTS: dict[str, Callable[[dict[str, Any]], Event]] = {
    "consultation.created": models.ConsultationCreatedEvent.from_dict,
    "consultation.payment_authorized": models.ConsultationPaymentAuthorizedEvent.from_dict,
    "consultation.matching": models.ConsultationMatchingEvent.from_dict,
    "consultation.assigned": models.ConsultationAssignedEvent.from_dict,
    "consultation.call_started": models.ConsultationCallStartedEvent.from_dict,
    "consultation.call_ended": models.ConsultationCallEndedEvent.from_dict,
    "consultation.completed": models.ConsultationCompletedEvent.from_dict,
    "consultation.note_available": models.ConsultationNoteAvailableEvent.from_dict,
    "consultation.pending_callback": models.ConsultationPendingCallbackEvent.from_dict,
    "consultation.cancelled": models.ConsultationCancelledEvent.from_dict,
    "consultation.refunded": models.ConsultationRefundedEvent.from_dict,
    "consultation.expired": models.ConsultationExpiredEvent.from_dict,
    "webhook.ping": models.WebhookPingEvent.from_dict,
}


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


def play() -> None:
    env = os.environ
    base_url, redirect_uri = env["PARTNER_BASE_URL"], env["PARTNER_REDIRECT_URI"]
    client_id, client_secret = env["PARTNER_CLIENT_ID"], env["PARTNER_CLIENT_SECRET"]
    verifier, state = secrets.token_urlsafe(32), secrets.token_urlsafe(16)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urllib.parse.urlencode({
        "response_type": "code", "client_id": client_id, "redirect_uri": redirect_uri, "state": state,
        "scope": "profile:read wallet:read wallet:topup consultations:read consultations:write notes:read offline_access",
        "code_challenge": challenge, "code_challenge_method": "S256",
    })
    back = urllib.parse.parse_qs(urllib.parse.urlsplit(ask(f"OPEN {env['PARTNER_AUTHORIZE_URL']}?{query}")).query)
    expect("state", back["state"], [state])

    anonymous = Client(base_url=base_url)
    tokens = sure(models.TokenResponse, issue_token.sync(client=anonymous, idempotency_key=secrets.token_hex(), body=models.TokenRequest(
        grant_type=models.TokenRequestGrantType.AUTHORIZATION_CODE, code=back["code"][0], code_verifier=verifier, redirect_uri=redirect_uri,
        client_id=client_id, client_secret=client_secret)))
    client = AuthenticatedClient(base_url=base_url, token=tokens.access_token)

    def request(ref: str, competence: str = "HOUSING") -> models.CreateConsultationRequest:
        return models.CreateConsultationRequest(
            competence=competence, subject="Deposit not returned", withdrawal_waiver_acknowledged=True, external_ref=ref)

    key = secrets.token_hex()
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
    second = sure(models.Consultation, create_consultation.sync(client=client, body=request("python-2"), idempotency_key=secrets.token_hex()))
    listed = sure(models.ConsultationPage, list_consultations.sync(client=client, limit=2))
    expect("the list, newest first", [item.id for item in listed.items], [second.id, made.id])
    cancelled = sure(models.Consultation, cancel_consultation.sync(second.id, client=client))
    expect("status", cancelled.status, models.ConsultationStatus.CANCELLED)

    until("the call", lambda: sure(models.Consultation, get_consultation.sync(made.id, client=client)).status is models.ConsultationStatus.COMPLETED)
    note = sure(models.NotePreview, get_consultation_note.sync(made.id, client=client))
    expect("the note is of", note.consultation_id, made.id)
    sure(models.NotCancellableError, cancel_consultation.sync(made.id, client=client))
    sure(models.NotFoundError, get_consultation.sync("con_test_nobody", client=client))
    invalid = create_consultation.sync(client=client, body=request("python-3", competence="NONE"), idempotency_key=secrets.token_hex())
    expect("what to do", explain(sure(models.ValidationError, invalid)), "competence: not_in_catalog")

    for received in json.loads(ask("EVENTS")):
        body = json.loads(received["body"])
        print("EVENT", describe(EVENTS[body["type"]](body)))

    fresh = sure(models.TokenResponse, issue_token.sync(client=anonymous, idempotency_key=secrets.token_hex(), body=models.TokenRequest(
        grant_type=models.TokenRequestGrantType.REFRESH_TOKEN, refresh_token=tokens.refresh_token, client_id=client_id, client_secret=client_secret)))
    revoke_token.sync_detailed(client=anonymous, body=models.RevokeRequest(
        token=str(fresh.refresh_token), client_id=client_id, client_secret=client_secret))
    sure(models.UnauthorizedError, get_wallet.sync(client=client))
    print("DONE")


if __name__ == "__main__":
    play()
