"""A layer around the generated client of the Partner API. It supports threads, not asyncio."""

from .app import LinkAgainError, LinkRefusedError, PartnerApp, PendingLink, TokenEndpointError
from .http import RetryTransport, new_idempotency_key
from .pages import each
from .tokens import MemoryTokenStore, Tokens, TokenStore
from .webhooks import Event, Webhook, WebhookError, read_webhook, signature_fault

__all__ = [
    "Event",
    "LinkAgainError",
    "LinkRefusedError",
    "MemoryTokenStore",
    "PartnerApp",
    "PendingLink",
    "RetryTransport",
    "TokenEndpointError",
    "TokenStore",
    "Tokens",
    "Webhook",
    "WebhookError",
    "each",
    "new_idempotency_key",
    "read_webhook",
    "signature_fault",
]
