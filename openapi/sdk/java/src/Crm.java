import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.SecureRandom;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.stream.Collectors;
import partner.ApiClient;
import partner.ApiException;
import partner.api.ConsultationsApi;
import partner.api.OAuthApi;
import partner.api.WalletApi;
import partner.model.*;

/** A CRM with the client that openapi-generator generates. */
public final class Crm {
  private static final ObjectMapper JSON = ApiClient.createDefaultObjectMapper();
  private static final BufferedReader ANSWERS = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));

  /** Says what to tell the client's adviser. */
  static String explain(ApiException error) throws IOException {
    return switch (error.getCode()) {
      case 409 -> {
        var conflict = JSON.readValue(error.getResponseBody(), CreateConsultationConflictError.class);
        yield switch (conflict.getCode()) { // every code has its case
          case INSUFFICIENT_FUNDS -> "top up at " + conflict.getActionUrl();
          case PHONE_REQUIRED -> "verify a phone number at " + conflict.getActionUrl();
          case IDEMPOTENCY_CONFLICT -> "the key was used for something else";
          case IDEMPOTENCY_IN_PROGRESS -> "the first try is still under way";
        };
      }
      case 422 -> JSON.readValue(error.getResponseBody(), ValidationError.class).getIssues().stream()
          .map(issue -> issue.getPath() + ": " + issue.getCode().getValue()).collect(Collectors.joining(", "));
      case 400 -> switch (JSON.readValue(error.getResponseBody(), CreateConsultationBadRequestError.class).getCode()) {
        case IDEMPOTENCY_KEY_REQUIRED -> "our fault: no key";
        case INVALID_REQUEST -> "our fault: malformed";
      };
      case 401, 403 -> "link again";
      default -> "later";
    };
  }

  /** Says a line for the timeline of a consultation; every type has its case. */
  static String describe(WebhookEvent event) {
    if (event.getActualInstance() instanceof WebhookPingEvent) {
      return "the service tries our address";
    }
    return switch (typeOf(event)) {
      case CONSULTATION_CREATED -> "created for " + event.getConsultationCreatedEvent().getData().getPriceCents() + " cents";
      case CONSULTATION_PAYMENT_AUTHORIZED -> "money reserved";
      case CONSULTATION_MATCHING -> "looking for a lawyer";
      case CONSULTATION_ASSIGNED -> "a lawyer has it";
      case CONSULTATION_CALL_STARTED -> "in the call";
      case CONSULTATION_CALL_ENDED -> "talked for " + event.getConsultationCallEndedEvent().getData().getDurationSec() + " s";
      case CONSULTATION_COMPLETED -> "done";
      case CONSULTATION_NOTE_AVAILABLE -> "there is a note";
      case CONSULTATION_PENDING_CALLBACK -> "called back by " + event.getConsultationPendingCallbackEvent().getData().getCallbackDueAt();
      case CONSULTATION_CANCELLED -> "cancelled: " + event.getConsultationCancelledEvent().getData().getEndReason();
      case CONSULTATION_REFUNDED -> event.getConsultationRefundedEvent().getData().getRefundedCents() + " cents are back";
      case CONSULTATION_EXPIRED -> "expired: " + event.getConsultationExpiredEvent().getData().getEndReason();
    };
  }

  private static EventType typeOf(WebhookEvent event) {
    return EventType.fromValue(JSON.<JsonNode>valueToTree(event.getActualInstance()).get("type").asText());
  }

  private static String ask(String line) throws IOException {
    System.out.println(line);
    String answer = ANSWERS.readLine();
    if (answer == null) {
      throw new IOException("nobody answered " + line);
    }
    return answer;
  }

  private static void expect(String what, Object is, Object wanted) {
    if (!is.equals(wanted)) {
      throw new IllegalStateException(what + " is " + is + ", not " + wanted);
    }
  }

  private static ApiException refused(Callable<?> call) throws Exception {
    try {
      throw new IllegalStateException("not refused: " + call.call());
    } catch (ApiException e) {
      return e;
    }
  }

  /** Reads until the answer is yes; gives up after a minute. */
  private static void until(String what, Callable<Boolean> read) throws Exception {
    for (long end = System.nanoTime() + 60_000_000_000L; !read.call(); Thread.sleep(250)) {
      if (System.nanoTime() > end) {
        throw new IllegalStateException("waited a minute for " + what);
      }
    }
  }

  private static String random() {
    byte[] bytes = new byte[32];
    new SecureRandom().nextBytes(bytes);
    return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
  }

  private static ApiClient client(String token) {
    var client = new ApiClient();
    client.updateBaseUri(System.getenv("PARTNER_BASE_URL"));
    if (token != null) {
      client.setRequestInterceptor(request -> request.header("Authorization", "Bearer " + token));
    }
    return client;
  }

  private static CreateConsultationRequest request(String reference) {
    return new CreateConsultationRequest().competence("HOUSING").subject("Deposit not returned")
        .withdrawalWaiverAcknowledged(CreateConsultationRequest.WithdrawalWaiverAcknowledgedEnum.TRUE).externalRef(reference);
  }

  public static void main(String[] args) throws Exception {
    String id = System.getenv("PARTNER_CLIENT_ID");
    String secret = System.getenv("PARTNER_CLIENT_SECRET");
    URI redirect = URI.create(System.getenv("PARTNER_REDIRECT_URI"));
    String verifier = random();
    String state = random();
    String challenge = Base64.getUrlEncoder().withoutPadding()
        .encodeToString(MessageDigest.getInstance("SHA-256").digest(verifier.getBytes(StandardCharsets.US_ASCII)));
    String query = Map.of("response_type", "code", "client_id", id, "redirect_uri", redirect.toString(), "state", state,
            "scope", "profile:read wallet:read wallet:topup consultations:read consultations:write notes:read offline_access",
            "code_challenge", challenge, "code_challenge_method", "S256").entrySet().stream()
        .map(e -> e.getKey() + "=" + URLEncoder.encode(e.getValue(), StandardCharsets.UTF_8)).collect(Collectors.joining("&"));
    Map<String, String> back = new HashMap<>();
    for (String pair : URI.create(ask("OPEN " + System.getenv("PARTNER_AUTHORIZE_URL") + "?" + query)).getRawQuery().split("&")) {
      String[] parts = pair.split("=", 2);
      back.put(parts[0], URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
    }
    expect("state", back.get("state"), state);

    var oauth = new OAuthApi(client(null));
    TokenResponse tokens = oauth.issueToken("authorization_code", id, secret, UUID.randomUUID().toString(), back.get("code"), redirect, verifier, null);
    ApiClient client = client(tokens.getAccessToken());
    var consultations = new ConsultationsApi(client);
    var wallet = new WalletApi(client);

    String key = UUID.randomUUID().toString();
    expect("told to top up", explain(refused(() -> consultations.createConsultation(key, request("java-1")))).startsWith("top up at http"), true);

    TopupSession page = wallet.createTopupSession(new CreateTopupSessionRequest().amountCents(4000L).returnUrl(redirect), null);
    ask("OPEN " + page.getCheckoutUrl());
    until("the money", () -> wallet.getWallet().getAvailableCents() == 4000);

    Consultation made = consultations.createConsultation(key, request("java-1"));
    var again = consultations.createConsultationWithHttpInfo(key, request("java-1"));
    expect("the consultation of the same key", again.getData().getId(), made.getId());
    expect("replayed", again.getHeaders().get("idempotent-replayed"), List.of("true"));
    Consultation second = consultations.createConsultation(UUID.randomUUID().toString(), request("java-2"));
    ConsultationPage listed = consultations.listConsultations(null, null, null, null, null, 2);
    expect("the list, newest first", listed.getItems().stream().map(Consultation::getId).toList(), List.of(second.getId(), made.getId()));
    expect("status", consultations.cancelConsultation(second.getId()).getStatus(), ConsultationStatus.CANCELLED);

    until("the call", () -> consultations.getConsultation(made.getId()).getStatus() == ConsultationStatus.COMPLETED);
    expect("the note is of", consultations.getConsultationNote(made.getId()).getConsultationId(), made.getId());
    expect("cancelled too late", refused(() -> consultations.cancelConsultation(made.getId())).getCode(), 409);
    expect("what nobody has", refused(() -> consultations.getConsultation("con_test_nobody")).getCode(), 404);
    expect("what to do", explain(refused(() -> consultations.createConsultation(UUID.randomUUID().toString(), request("java-3").competence("NONE")))),
        "competence: not_in_catalog");

    for (JsonNode received : JSON.readTree(ask("EVENTS"))) {
      System.out.println("EVENT " + describe(JSON.readValue(received.get("body").asText(), WebhookEvent.class)));
    }

    TokenResponse fresh = oauth.issueToken("refresh_token", id, secret, UUID.randomUUID().toString(), null, null, null, tokens.getRefreshToken());
    oauth.revokeToken(fresh.getRefreshToken(), id, secret);
    expect("after the disconnection", refused(wallet::getWallet).getCode(), 401);
    System.out.println("DONE");
  }
}
