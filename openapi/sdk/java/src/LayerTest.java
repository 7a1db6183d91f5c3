import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import partner.api.WalletApi;
import partner.model.WebhookPingEvent;
import partner.sdk.*;

/** What the layer guarantees, against a service that is simulated here. */
public final class LayerTest {
  /** A request that the service received. */
  record Asked(String path, String key, String token) {}

  /** Responds itself to a request, the nth of its path, and says so; or leaves it. */
  interface First {
    boolean respond(int n, Asked asked, HttpExchange exchange) throws IOException;
  }

  /** A service that rotates refresh tokens and stores its responses by key. */
  static final class Service implements AutoCloseable {
    final List<Asked> asked = new ArrayList<>();
    private final Map<String, String> stored = new HashMap<>();
    private final HttpServer server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    private final First first;
    private String valid;
    boolean losesFirstToken;

    Service(String valid, First first) throws IOException {
      this.valid = valid;
      this.first = first;
      server.setExecutor(Executors.newCachedThreadPool(task -> {
        var thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
      }));
      server.createContext("/", this::handle);
      server.start();
    }

    String base() {
      return "http://localhost:" + server.getAddress().getPort();
    }

    private synchronized void handle(HttpExchange exchange) throws IOException {
      String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
      var headers = exchange.getRequestHeaders();
      var one = new Asked(exchange.getRequestURI().getPath(), headers.getFirst("Idempotency-Key"), headers.getFirst("Authorization"));
      asked.add(one);
      if (first.respond(count(one.path()), one, exchange)) {
        return;
      }
      if (!one.path().equals("/api/oauth/token")) {
        respond(exchange, 200, "{\"currency\": \"EUR\", \"availableCents\": 1, \"reservedCents\": 0}");
        return;
      }
      if (!stored.containsKey(one.key())) {
        if (body.contains("refresh_token=") && !body.contains("refresh_token=" + valid + "&") && !body.endsWith("refresh_token=" + valid)) {
          respond(exchange, 400, "{\"error\": \"invalid_grant\", \"error_description\": \"reused\"}");
          return;
        }
        valid = "rt_" + asked.size();
        stored.put(one.key(), "{\"access_token\": \"at_" + asked.size() + "\", \"refresh_token\": \"" + valid + "\", \"expires_in\": 900, \"scope\": \"x\"}");
      }
      if (losesFirstToken) {
        losesFirstToken = false;
        exchange.close(); // the connection ends without a response
        return;
      }
      respond(exchange, 200, stored.get(one.key()));
    }

    int count(String path) {
      return (int) asked.stream().filter(one -> one.path().equals(path)).count();
    }

    @Override
    public void close() {
      server.stop(0);
    }
  }

  static void respond(HttpExchange exchange, int status, String body) throws IOException {
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  static void same(String what, Object is, Object wanted) {
    if (!Objects.equals(is, wanted)) {
      throw new IllegalStateException(what + ": " + is + ", not " + wanted);
    }
  }

  static <E extends Exception> E thrown(Class<E> type, Callable<?> call) throws Exception {
    try {
      throw new IllegalStateException("not thrown: " + call.call());
    } catch (Exception e) {
      if (type.isInstance(e)) {
        return type.cast(e);
      }
      throw e;
    }
  }

  static PartnerApp app(Service service, TokenStore store, Tokens tokens) throws Exception {
    store.update("c", before -> tokens);
    return new PartnerApp(service.base(), service.base(), "app", "sk", "https://crm.example/back", store,
        new Retries(4, Duration.ofMillis(2), Duration.ofSeconds(20), Duration.ofSeconds(30)));
  }

  static Tokens tokens(String access, Duration left, String refresh) {
    return new Tokens(access, Instant.now().plus(left), "x", refresh);
  }

  static long wallet(PartnerApp app) throws Exception {
    return new WalletApi(app.client("c")).getWallet().getAvailableCents();
  }

  static int send(PartnerApp app, Service service, String method, String path) throws Exception {
    var request = HttpRequest.newBuilder(URI.create(service.base() + path)).method(method, HttpRequest.BodyPublishers.ofString("{}")).build();
    return app.client("c").getHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).statusCode();
  }

  static final First NONE = (n, asked, exchange) -> false;

  public static void main(String[] args) throws Exception {
    tokensAreRefreshed();
    requestsAreRetried();
    clientsAreLinked();
    listsAreReadToTheEnd();
    webhooksAreVerified();
    System.out.println("the layer passes");
  }

  static void tokensAreRefreshed() throws Exception {
    try (var service = new Service("rt", NONE)) { // once for many callers
      var app = app(service, new MemoryTokenStore(), tokens("old", Duration.ZERO, "rt"));
      var pool = Executors.newFixedThreadPool(20);
      var calls = new ArrayList<Callable<Long>>();
      for (int i = 0; i < 20; i++) {
        calls.add(() -> wallet(app));
      }
      for (var call : pool.invokeAll(calls)) {
        same("wallet", call.get(), 1L);
      }
      pool.shutdown();
      same("refreshes", service.count("/api/oauth/token"), 1);
    }
    try (var service = new Service("rt", NONE)) { // a lost response is asked for again under its key
      service.losesFirstToken = true;
      same("wallet", wallet(app(service, new MemoryTokenStore(), tokens("old", Duration.ZERO, "rt"))), 1L);
      same("refreshes", service.count("/api/oauth/token"), 2);
      same("key", service.asked.get(0).key(), service.asked.get(1).key());
    }
    try (var service = new Service("rt", (n, asked, exchange) -> { // a rejected token is refreshed
      if ("Bearer revoked".equals(asked.token())) {
        respond(exchange, 401, "{}");
        return true;
      }
      return false;
    })) {
      same("wallet", wallet(app(service, new MemoryTokenStore(), tokens("revoked", Duration.ofHours(1), "rt"))), 1L);
      same("refreshes", service.count("/api/oauth/token"), 1);
    }
    try (var service = new Service("another", NONE)) { // a rejected refresh forgets the link
      var store = new MemoryTokenStore();
      var app = app(service, store, tokens("old", Duration.ZERO, "rt"));
      thrown(LinkAgainException.class, () -> wallet(app));
      thrown(LinkAgainException.class, () -> wallet(app));
      same("refreshes", service.count("/api/oauth/token"), 1);
    }
    try (var service = new Service("rt", (n, asked, exchange) -> { // wrong credentials do not
      respond(exchange, 401, "{\"error\": \"invalid_client\"}");
      return true;
    })) {
      var store = new MemoryTokenStore();
      var app = app(service, store, tokens("old", Duration.ZERO, "rt"));
      same("reason", thrown(TokenEndpointException.class, () -> wallet(app)).reason(), "invalid_client");
      same("kept", store.read("c").refreshToken(), "rt");
    }
  }

  static void requestsAreRetried() throws Exception {
    var valid = tokens("at", Duration.ofHours(1), "rt");
    try (var service = new Service("rt", (n, asked, exchange) -> {
      if (n < 3) {
        exchange.getResponseHeaders().set("Retry-After", "0");
        respond(exchange, n == 1 ? 503 : 429, "{}");
      }
      return n < 3;
    })) {
      var app = app(service, new MemoryTokenStore(), valid);
      same("status", send(app, service, "POST", "/api/v1/consultations"), 200);
      same("keys", service.asked.stream().map(Asked::key).distinct().count(), 1L);
      same("has a key", service.asked.get(0).key() != null, true);
      same("status", send(app, service, "POST", "/api/v1/other"), 503);
      same("what is not safe to repeat", service.count("/api/v1/other"), 1);
    }
    try (var service = new Service("rt", (n, asked, exchange) -> {
      exchange.getResponseHeaders().set("Retry-After", "3600");
      respond(exchange, 429, "{}");
      return true;
    })) {
      same("a long Retry-After", send(app(service, new MemoryTokenStore(), valid), service, "GET", "/api/v1/wallet"), 429);
      same("tries", service.count("/api/v1/wallet"), 1);
    }
  }

  static void clientsAreLinked() throws Exception {
    try (var service = new Service("rt", NONE)) {
      var store = new MemoryTokenStore();
      var app = app(service, store, null);
      var pending = app.beginLink("profile:read offline_access");
      same("url", pending.url().contains("state=" + pending.state()) && pending.url().contains("code_challenge_method=S256"), true);
      String back = "https://crm.example/back?state=" + pending.state() + "&iss=" + URLEncoder.encode(service.base(), StandardCharsets.UTF_8);
      for (var one : Map.of("invalid_state", "https://crm.example/back?code=x&state=other", "invalid_issuer",
          "https://crm.example/back?code=x&iss=x&state=" + pending.state(), "access_denied", back + "&error=access_denied", "invalid_request", back)
          .entrySet()) {
        same("reason", thrown(LinkRefusedException.class, () -> app.finishLink("c", one.getValue(), pending)).reason(), one.getKey());
      }
      same("scope", app.finishLink("c", back + "&code=x", pending).scope(), "x");
      same("wallet", wallet(app), 1L);
      app.unlink("c");
      same("revoked", service.count("/api/oauth/revoke"), 1);
      thrown(LinkAgainException.class, () -> wallet(app));
    }
  }

  static void listsAreReadToTheEnd() {
    record Page(List<Integer> items, String next) {}
    var read = new ArrayList<Integer>();
    for (int item : Pages.each(cursor -> cursor == null ? new Page(List.of(3, 2), "next") : new Page(List.of(1), null), Page::items, Page::next)) {
      read.add(item);
    }
    same("list", read, List.of(3, 2, 1));
  }

  static String sign(String secret, Instant at, String body) throws Exception {
    var mac = Mac.getInstance("HmacSHA256");
    mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
    byte[] sum = mac.doFinal((at.getEpochSecond() + "." + body).getBytes(StandardCharsets.UTF_8));
    return "t=" + at.getEpochSecond() + ",v1=" + HexFormat.of().formatHex(sum);
  }

  static void webhooksAreVerified() throws Exception {
    String body = "{\"id\":\"evt_1\",\"type\":\"webhook.ping\",\"createdAt\":\"2026-06-01T08:00:00.000000Z\",\"data\":{}}";
    Instant now = Instant.ofEpochSecond(1_780_000_000);
    var cases = List.of(
        List.of("X-Service-Signature", sign("new", now, body), body, ""), List.of("x-service-signature", sign("old", now, body), body, ""),
        List.of("X-Service-Signature-Previous", sign("old", now, body), body, ""),
        List.of("X-Service-Signature", sign("other", now, body), body, "mismatch"),
        List.of("X-Service-Signature", sign("new", now, body), body + " ", "mismatch"),
        List.of("X-Service-Signature", sign("new", now.minusSeconds(300), body), body, "expired"),
        List.of("X-Service-Signature", sign("new", now.plusSeconds(300), body), body, "expired"),
        List.of("X-Service-Signature", sign("new", now.minusSeconds(299), body), body, ""),
        List.of("X-Service-Signature", sign("new", now, body) + "\n", body, "malformed"), List.of("X-Service-Signature", "", body, "malformed"),
        List.of("X-Service-Signature", sign("new", now, "{"), "{", "malformed"));
    for (var one : cases) {
      var headers = Map.of(one.get(0), one.get(1), "X-Service-Sequence", "7", "X-Service-Test", "true");
      byte[] content = one.get(2).getBytes(StandardCharsets.UTF_8);
      if (!one.get(3).isEmpty()) {
        same(one.get(1), thrown(WebhookException.class, () -> Webhook.read(List.of("new", "old"), headers, content, now)).reason(), one.get(3));
        continue;
      }
      var webhook = Webhook.read(List.of("new", "old"), headers, content, now);
      same("id", webhook.id(), "evt_1");
      same("event", webhook.event().getActualInstance() instanceof WebhookPingEvent, true);
      same("sequence", webhook.sequence(), 7L);
      same("test", webhook.test(), true);
    }
    String newer = "{\"id\":\"evt_2\",\"type\":\"consultation.invented\",\"data\":{}}";
    same("newer", Webhook.read(List.of("s"), Map.of("x-service-signature", sign("s", now, newer)), newer.getBytes(StandardCharsets.UTF_8), now).event(), null);
  }
}
