"""Tests of the guarantees of the layer against a simulated service. `make sdk` tests it against the real one."""

import base64
import email.utils
import hashlib
import hmac
import json
import threading
import time
import unittest
import urllib.parse
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import httpx

from partner import models
from partner.api.consultations import create_consultation
from partner.api.wallet import get_wallet
from partner_sdk import (
    LinkAgainError, LinkRefusedError, MemoryTokenStore, PartnerApp, RetryTransport, TokenEndpointError, Tokens, TokenStore, WebhookError, each, new_idempotency_key,
    read_webhook, signature_fault,
)

Early = httpx.Response | Exception
EXPIRED = Tokens("a0", 0, "wallet:read", "r0")
WALLET = {"balanceCents": 1, "heldCents": 0, "availableCents": 1, "currency": "EUR", "canStartConsultation": False, "consultationPriceCents": 2000}


def oauth_error(status: int, error: str) -> httpx.Response:
    return httpx.Response(status, json={"error": error, "error_description": "no", "code": error, "message": "no"})


@dataclass
class Asked:
    path: str
    key: str | None
    token: str | None
    body: str


class Service(httpx.BaseTransport):
    """Rotates refresh tokens and stores its responses by key. `token` and `api` are its first responses."""

    def __init__(self, token: list[Early] | None = None, api: list[Early] | None = None) -> None:
        self.first = {True: token or [], False: api or []}
        self.asked: list[Asked] = []
        self.kept: dict[str, dict[str, object]] = {}
        self.spent: set[str] = set()
        self.current, self.lock = "a0", threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        one = Asked(request.url.path, request.headers.get("Idempotency-Key"), request.headers.get("Authorization"), request.read().decode())
        time.sleep(0.002)
        with self.lock:
            self.asked.append(one)
            is_token = one.path == "/api/oauth/token"
            early = self.first[is_token].pop(0) if self.first[is_token] else None
            if is_token and not isinstance(early, httpx.Response):
                refresh = urllib.parse.parse_qs(one.body).get("refresh_token", [""])[0]
                if (one.key or "") not in self.kept:
                    if refresh in self.spent:
                        return oauth_error(400, "invalid_grant")
                    self.spent.add(refresh)
                    made = len(self.spent)
                    self.current = f"a{made}"
                    self.kept[one.key or ""] = {
                        "access_token": self.current, "token_type": "Bearer", "expires_in": 900, "scope": "wallet:read", "refresh_token": f"r{made}"}
                if early is not None:
                    raise early  # the request succeeded, and its response is lost
                return httpx.Response(200, json=self.kept[one.key or ""])
            if isinstance(early, Exception):
                raise early
            if early is not None:
                return early
            if one.token != f"Bearer {self.current}":
                return httpx.Response(401, json={"code": "UNAUTHORIZED", "message": "no"})
            return httpx.Response(200, json=WALLET)

    def refreshes(self) -> list[Asked]:
        return [one for one in self.asked if one.path == "/api/oauth/token"]

    def calls(self) -> list[Asked]:
        return [one for one in self.asked if one.path != "/api/oauth/token"]


def application(service: Service, tokens: Tokens | None = EXPIRED, store: TokenStore | None = None, issuer: str | None = None) -> tuple[PartnerApp, TokenStore]:
    store = MemoryTokenStore() if store is None else store
    store.update("anna", lambda _: tokens)
    return PartnerApp(
        base_url="https://service.example", client_id="app_1", client_secret="sk_1", redirect_uri="https://crm.example/callback", store=store, issuer=issuer,
        transport=lambda: service, pause=0.002), store


def lost() -> Exception:
    return httpx.ReadError("connection lost")


class Failing(MemoryTokenStore):
    """A store whose writes fail for a while."""

    fail = False

    def update(self, link: str, change: Callable[[Tokens | None], Tokens | None]) -> Tokens | None:
        def changing(tokens: Tokens | None) -> Tokens | None:
            changed = change(tokens)
            if self.fail:
                raise OSError("the disk is full")
            return changed

        return super().update(link, changing)


class TokensTest(unittest.TestCase):
    def test_many_threads_with_an_expired_token_refresh_once_in_two_processes_too(self) -> None:
        service = Service()
        one, store = application(service)
        other, _ = application(service, store=store)
        clients = [one.client("anna"), other.client("anna")]
        with ThreadPoolExecutor(30) as pool:
            answers = list(pool.map(lambda i: get_wallet.sync(client=clients[i % 2]), range(60)))
        self.assertTrue(all(isinstance(answer, models.Wallet) for answer in answers))
        self.assertEqual(len(service.refreshes()), 1)
        self.assertEqual({one.token for one in service.calls()}, {"Bearer a1"})
        self.assertEqual((store.read("anna") or EXPIRED).refresh_token, "r1")

    def test_a_rejected_token_is_refreshed_once_for_all_callers(self) -> None:
        service = Service()
        app, _ = application(service, Tokens("revoked", time.time() + 900, "wallet:read", "r0"))
        client = app.client("anna")
        with ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(lambda _: get_wallet.sync(client=client), range(20)))
        self.assertTrue(all(isinstance(answer, models.Wallet) for answer in answers))
        self.assertEqual(len(service.refreshes()), 1)

    def test_a_refresh_with_a_lost_response_is_retried_with_its_key(self) -> None:
        service = Service(token=[lost(), lost()])
        app, store = application(service)
        self.assertIsInstance(get_wallet.sync(client=app.client("anna")), models.Wallet)
        self.assertEqual(len(service.refreshes()), 3)
        self.assertEqual(len({one.key for one in service.refreshes()}), 1)
        self.assertEqual((store.read("anna") or EXPIRED).refresh_token, "r1")

    def test_tokens_that_could_not_be_stored_are_requested_again_with_the_same_key(self) -> None:
        service, store = Service(), Failing()
        app, _ = application(service, store=store)
        store.fail = True
        with self.assertRaises(OSError):
            get_wallet.sync(client=app.client("anna"))
        store.fail = False
        self.assertIsInstance(get_wallet.sync(client=app.client("anna")), models.Wallet)
        first, second = service.refreshes()
        self.assertEqual(first.key, second.key)

    def test_a_rejected_refresh_is_one_error_for_all_callers_and_deletes_the_tokens(self) -> None:
        service = Service(token=[oauth_error(400, "invalid_grant")])
        app, store = application(service)
        client = app.client("anna")

        def call(_: int) -> bool:
            try:
                get_wallet.sync(client=client)
            except LinkAgainError:
                return True
            return False

        with ThreadPoolExecutor(20) as pool:
            self.assertTrue(all(pool.map(call, range(20))))
        self.assertIsNone(store.read("anna"))
        self.assertTrue(call(0))
        self.assertEqual(len(service.refreshes()), 1)

    def test_wrong_application_credentials_lose_no_link(self) -> None:
        service = Service(token=[oauth_error(401, "invalid_client")])
        app, store = application(service)
        with self.assertRaises(TokenEndpointError) as refused:
            get_wallet.sync(client=app.client("anna"))
        self.assertEqual((refused.exception.status, refused.exception.code), (401, "invalid_client"))
        self.assertEqual(store.read("anna"), EXPIRED)
        self.assertIsInstance(get_wallet.sync(client=app.client("anna")), models.Wallet)

    def test_without_offline_access_a_token_is_used_until_it_expires(self) -> None:
        service = Service()
        short = Tokens("a0", time.time() + 5, "wallet:read")
        app, _ = application(service, short)
        self.assertIsInstance(get_wallet.sync(client=app.client("anna")), models.Wallet)
        app, _ = application(service, replace(short, expires_at=0))
        with self.assertRaises(LinkAgainError):
            get_wallet.sync(client=app.client("anna"))
        self.assertEqual(service.refreshes(), [])

    def test_a_link_starts_with_pkce_and_is_completed_only_by_its_own_callback(self) -> None:
        service = Service()
        app, store = application(service, None, issuer="https://login.example")
        url, pending = app.begin_link("wallet:read offline_access")
        self.assertTrue(url.startswith("https://login.example/api/oauth/authorize?"))
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(url).query)
        digest = hashlib.sha256(pending.code_verifier.encode()).digest()
        self.assertEqual(query["code_challenge"], [base64.urlsafe_b64encode(digest).rstrip(b"=").decode()])
        self.assertRegex(pending.code_verifier, r"\A[A-Za-z0-9_-]{43}\Z")

        def back(**more: str) -> str:
            return "https://crm.example/callback?" + urllib.parse.urlencode({"state": pending.state, "iss": "https://login.example"} | more)

        for callback, code in [
            (back(code="c", state="other"), "invalid_state"), (back(code="c", iss="https://evil.example"), "invalid_issuer"), (back(error="access_denied"), "access_denied"),
        ]:
            with self.assertRaises(LinkRefusedError) as refused:
                app.finish_link("anna", callback, pending)
            self.assertEqual(refused.exception.code, code)
        self.assertEqual(service.refreshes(), [])
        self.assertEqual(app.finish_link("anna", back(code="c"), pending).scope, "wallet:read")
        self.assertEqual(urllib.parse.parse_qs(service.refreshes()[0].body)["code_verifier"], [pending.code_verifier])
        self.assertIsNotNone(store.read("anna"))


class RetriesTest(unittest.TestCase):
    good = Tokens("a0", time.time() + 900, "wallet:read", "r0")

    def test_429_503_and_lost_responses_are_retried_with_one_key(self) -> None:
        service = Service(api=[httpx.Response(429), lost(), httpx.Response(503)])
        app, _ = application(service, self.good)
        create_consultation.sync_detailed(client=app.client("anna"), idempotency_key="mine", body=models.CreateConsultationRequest(
            competence="TAX", subject="A question", withdrawal_waiver_acknowledged=True))
        self.assertEqual([one.key for one in service.calls()], ["mine"] * 4)
        self.assertEqual(len({one.body for one in service.calls()}), 1)

        made = Service(api=[httpx.Response(503)])
        app, _ = application(made, self.good)
        app.client("anna").get_httpx_client().post("/api/v1/wallet/topup-session", json={})
        first, second = made.calls()
        self.assertTrue(first.key)
        self.assertEqual(first.key, second.key)
        self.assertNotEqual(new_idempotency_key(), new_idempotency_key())

    def test_nothing_else_is_retried(self) -> None:
        for path, method, answer, tries in [
            ("/api/v1/wallet", "GET", httpx.Response(500), 1), ("/api/v1/wallet", "GET", httpx.Response(404), 1),
            ("/api/platform/v1/endpoint/test", "POST", httpx.Response(503), 1), ("/api/v1/consultations/con_1/cancel", "POST", httpx.Response(503), 2),
            ("/api/v1/wallet", "GET", httpx.Response(503, headers={"Retry-After": "3600"}), 1),
        ]:
            service = Service(api=[answer])
            app, _ = application(service, self.good)
            app.client("anna").get_httpx_client().request(method, path)
            self.assertEqual(len(service.calls()), tries, f"{method} {path} {answer.status_code}")
        service = Service(api=[httpx.Response(503) for _ in range(9)])
        with httpx.Client(transport=RetryTransport(service, pause=0.002)) as client:
            self.assertEqual(client.get("https://service.example/x").status_code, 503)
            self.assertEqual(len(service.calls()), 4)
            service.first[False] = [lost()]
            with self.assertRaises(httpx.ReadError):
                client.post("https://service.example/x")

    def test_retry_after_is_respected_in_seconds_and_as_a_date(self) -> None:
        says: list[Callable[[], str]] = [lambda: "1", lambda: email.utils.formatdate(time.time() + 2, usegmt=True)]
        for say in says:
            service = Service(api=[httpx.Response(429, headers={"Retry-After": say()})])
            app, _ = application(service, self.good)
            began = time.monotonic()
            self.assertIsInstance(get_wallet.sync(client=app.client("anna")), models.Wallet)
            self.assertGreaterEqual(time.monotonic() - began, 0.95)
            self.assertEqual(len(service.calls()), 2)


@dataclass
class Listed:
    items: list[int]
    next_cursor: str | None


class PagesTest(unittest.TestCase):
    def test_a_list_is_read_to_its_end(self) -> None:
        pages = {None: Listed([1, 2], "x"), "x": Listed([3], None)}
        self.assertEqual(list(each(lambda cursor: pages[cursor])), [1, 2, 3])


class WebhooksTest(unittest.TestCase):
    raw = b'{"id":"evt_1","type":"consultation.matching","createdAt":"2026-06-01T08:30:00.000000Z","data":{"id":"con_1","status":"MATCHING","competence":"TAX"}}'
    now = 1_780_302_600

    def sign(self, secret: str, body: bytes) -> str:
        return f"t={self.now},v1={hmac.new(secret.encode(), f'{self.now}.'.encode() + body, hashlib.sha256).hexdigest()}"

    def reason(self, secrets: str | list[str], headers: dict[str, str], body: bytes = raw, now: int = now) -> str:
        try:
            read_webhook(secrets, headers, body, now)
        except WebhookError as refusal:
            return refusal.reason
        return "accepted"

    def test_signatures_are_verified_as_by_the_service(self) -> None:
        vectors = json.loads((Path(__file__).parents[3] / "internal/domain/webhook/testdata/signatures.json").read_text("utf-8"))
        self.assertGreater(len(vectors), 30)
        for v in vectors:
            with self.subTest(v["name"]):
                self.assertEqual(signature_fault(v["secret"], v["header"], v["body"].encode(), v["now"]) or "accepted", v["result"])

    def test_a_webhook_is_accepted_with_either_secret_of_a_rotation_and_only_if_it_is_genuine(self) -> None:
        rotated = {"X-Service-Signature": self.sign("new", self.raw), "X-Service-Signature-Previous": self.sign("old", self.raw), "X-Service-Sequence": "3"}
        self.assertEqual(self.reason("new", rotated), "accepted")
        self.assertEqual(self.reason("old", rotated), "accepted")
        self.assertEqual(self.reason(["old", "new"], {"x-service-signature": self.sign("new", self.raw)}), "accepted")
        self.assertEqual(self.reason(["other", "another"], rotated), "mismatch")
        self.assertEqual(self.reason("new", rotated, now=self.now + 300), "expired")
        self.assertEqual(self.reason("new", {}), "malformed")
        self.assertEqual(self.reason("new", rotated, json.dumps(json.loads(self.raw), indent=1).encode()), "mismatch")
        self.assertEqual(self.reason("new", {"x-service-signature": self.sign("new", b"not JSON")}, b"not JSON"), "malformed")

        webhook = read_webhook("new", rotated, self.raw, self.now)
        self.assertEqual((webhook.id, webhook.sequence, webhook.test), ("evt_1", 3, False))
        self.assertIsInstance(webhook.event, models.ConsultationMatchingEvent)
        later = b'{"id":"evt_2","type":"consultation.praised","data":{}}'
        unknown = read_webhook("new", {"x-service-signature": self.sign("new", later), "X-Service-Test": "true"}, later, self.now)
        self.assertEqual((unknown.type, unknown.event, unknown.test), ("consultation.praised", None, True))


if __name__ == "__main__":
    unittest.main()
