"""What Schemathesis cannot know from a contract: credentials, which the calls themselves change, and values that exist. Tells what it saw."""

import atexit
import base64
import itertools
import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import schemathesis

env = os.environ
application = {"id": env["FUZZ_CLIENT_ID"], "secret": env["FUZZ_CLIENT_SECRET"]}
refresh_token = env["FUZZ_REFRESH_TOKEN"]
calls = itertools.count()
seen: defaultdict[str, Counter[int]] = defaultdict(Counter)


@schemathesis.auth(refresh_interval=None)
class Credentials:
    """The client's token for the Partner API, those of the application for the others."""

    def get(self, case: Any, context: Any) -> str:
        if "/api/v1/" in case.operation.path:
            return f"Bearer {env['FUZZ_ACCESS_TOKEN']}"
        return "Basic " + base64.b64encode(f"{application['id']}:{application['secret']}".encode()).decode()

    def set(self, case: Any, data: str, context: Any) -> None:
        if "/api/oauth/" not in case.operation.path:
            case.headers["Authorization"] = data


def operation_id(case: Any) -> str:
    return str(case.operation.definition.raw["operationId"])


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Gives what is right by its form values that exist, every other time. What is wrong on purpose stays wrong."""
    turn = next(calls)
    if turn % 2 or case.meta is not None and case.meta.generation.mode.is_negative:
        return
    if "Idempotency-Key" in case.headers:
        case.headers["Idempotency-Key"] = f"fuzz-{turn}"
    match operation_id(case), case.body:
        case "issueToken" | "revokeToken", {"client_id": _} as form:
            form.update(client_id=application["id"], client_secret=application["secret"])
            if form.get("grant_type") == "refresh_token":
                form["refresh_token"] = refresh_token
                form.pop("scope", None)
        case "setEndpoint", {"url": _} as body:
            body["url"] = env["FUZZ_RECEIVER"]
        case "createTopupSession", {"returnUrl": _} as body:
            body["returnUrl"] = env["FUZZ_REDIRECT_URI"]
        case "getConsultationNote" | "runConsultation", _:
            case.path_parameters["id"] = env["FUZZ_COMPLETED"]
        case "authorize", _:
            case.query.update(client_id=application["id"], redirect_uri=env["FUZZ_REDIRECT_URI"], scope="profile:read")


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    global refresh_token
    operation = operation_id(case)
    if case.method == case.operation.method.upper():
        for status in case.operation.definition.raw["responses"]:
            seen[operation].setdefault(int(status), 0)
        seen[operation][response.status_code] += 1
    if response.status_code == 200 and operation == "rotateClientSecret":
        application["secret"] = response.json()["secret"]
    if response.status_code == 200 and operation == "issueToken":
        refresh_token = response.json()["refresh_token"]


@atexit.register
def tell() -> None:
    Path(env["FUZZ_SEEN"]).write_text(json.dumps(seen), "utf-8")
