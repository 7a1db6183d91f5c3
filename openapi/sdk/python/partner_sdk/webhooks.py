"""Webhooks, verified and typed."""

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from partner import models

TOLERANCE = 300
"""Seconds from which a signature is too old, or too far in the future."""

Fault = Literal["malformed", "mismatch", "expired"]

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

# The generator creates a class for each event but omits their union, because no operation returns it.
_EVENTS: dict[str, Callable[[dict[str, Any]], Event]] = {
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

_HEADER = re.compile(r"t=([0-9]{10}),v1=([0-9a-f]{64})")


class WebhookError(Exception):
    """The request is not a genuine webhook: respond with 400."""

    def __init__(self, reason: Fault) -> None:
        super().__init__(f"the webhook is rejected: {reason}")
        self.reason = reason


@dataclass(frozen=True)
class Webhook:
    """A genuine webhook."""

    id: str
    """The same in every delivery of an event: ignore events that you have handled."""
    type: str
    event: Event | None
    """None if the type is newer than this code: respond with 2xx and continue."""
    sequence: int | None
    """Counts the events of a consultation from 1. The signature does not cover it."""
    test: bool
    """Whether it is a test event that you requested. The signature does not cover it."""


def signature_fault(secret: str, header: str, body: bytes, now: float | None = None) -> Fault | None:
    """Checks one signature of a raw body. Returns what is wrong, or None if the signature is valid. `now` is in seconds since 1970."""
    match = _HEADER.fullmatch(header)
    if match is None:
        return "malformed"
    t, v1 = match.groups()
    right = hmac.new(secret.encode(), f"{t}.".encode() + body, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(right, v1):
        return "mismatch"
    if abs((time.time() if now is None else now) - int(t)) >= TOLERANCE:
        return "expired"
    return None


def read_webhook(secrets: str | list[str], headers: Mapping[str, str], body: bytes, now: float | None = None) -> Webhook:
    """Reads a webhook that the service signed with one of your secrets, or raises WebhookError.

    `body` is the raw body, before anything parsed it. During a rotation, pass both secrets: it is enough that one of the two
    signatures of the request matches one of them.
    """
    given = {name.lower(): value for name, value in headers.items()}
    signatures = [given.get(name, "") for name in ("x-service-signature", "x-service-signature-previous")]
    tried = [secrets] if isinstance(secrets, str) else secrets
    faults = [signature_fault(secret, signature, body, now) for signature in signatures for secret in tried]
    if None not in faults:
        raise WebhookError("expired" if "expired" in faults else "mismatch" if "mismatch" in faults else "malformed")
    try:
        content = json.loads(body)
    except ValueError:
        raise WebhookError("malformed") from None
    read, sequence = _EVENTS.get(content["type"]), given.get("x-service-sequence")
    return Webhook(
        id=content["id"],
        type=content["type"],
        event=read(content) if read else None,
        sequence=None if sequence is None else int(sequence),
        test=given.get("x-service-test") == "true",
    )
