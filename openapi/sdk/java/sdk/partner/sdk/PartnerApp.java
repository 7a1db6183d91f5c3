package partner.sdk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.URLDecoder;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.Collectors;
import partner.ApiClient;

/** Your application with the clients linked to it. You name each link, for instance by the ID of your own record. It is safe for threads. */
public final class PartnerApp {
  /** A token is refreshed this long before it expires, so that it does not expire during a request. */
  private static final Duration EARLY = Duration.ofSeconds(30);

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final SecureRandom RANDOM = new SecureRandom();

  private final String baseUrl;
  private final String issuer;
  private final String clientId;
  private final String clientSecret;
  private final String redirectUri;
  private final TokenStore store;
  private final Retries retries;
  private final HttpClient http = HttpClient.newBuilder().connectTimeout(Duration.ofSeconds(10)).build();

  /** An application whose issuer is its base URL, the URL of the API without a path. */
  public PartnerApp(String baseUrl, String clientId, String clientSecret, String redirectUri, TokenStore store) {
    this(baseUrl, baseUrl, clientId, clientSecret, redirectUri, store, Retries.DEFAULT);
  }

  /** An application with another issuer, which is also the base URL of the authorize page. */
  public PartnerApp(
      String baseUrl, String issuer, String clientId, String clientSecret, String redirectUri, TokenStore store, Retries retries) {
    this.baseUrl = baseUrl.replaceAll("/+$", "");
    this.issuer = issuer.replaceAll("/+$", "");
    this.clientId = clientId;
    this.clientSecret = clientSecret;
    this.redirectUri = redirectUri;
    this.store = store;
    this.retries = retries;
  }

  /**
   * What a link needs between its two halves: send the client's browser to {@code url}, and keep the rest in the session of this visitor.
   *
   * @param url URL of the authorize page
   * @param state proves that the callback belongs to this visitor
   * @param codeVerifier redeems the code
   */
  public record PendingLink(String url, String state, String codeVerifier) {}

  /** Begins a link. */
  public PendingLink beginLink(String scope) {
    String state = random();
    String verifier = random();
    var query = new LinkedHashMap<String, String>();
    query.put("response_type", "code");
    query.put("client_id", clientId);
    query.put("redirect_uri", redirectUri);
    query.put("scope", scope);
    query.put("state", state);
    query.put("code_challenge", Base64.getUrlEncoder().withoutPadding().encodeToString(sha256(verifier)));
    query.put("code_challenge_method", "S256");
    return new PendingLink(issuer + "/api/oauth/authorize?" + form(query), state, verifier);
  }

  /**
   * Ends a link with the URL that the client returned to, and stores the tokens.
   *
   * @throws LinkRefusedException when the client refused or the URL does not belong to {@code pending}
   */
  public Tokens finishLink(String link, String callback, PendingLink pending) throws IOException, InterruptedException {
    var back = new HashMap<String, String>();
    String query = URI.create(callback).getRawQuery();
    for (String pair : (query == null ? "" : query).split("&")) {
      String[] parts = pair.split("=", 2);
      back.put(URLDecoder.decode(parts[0], StandardCharsets.UTF_8), parts.length < 2 ? "" : URLDecoder.decode(parts[1], StandardCharsets.UTF_8));
    }
    if (!pending.state().equals(back.get("state"))) {
      throw refused("invalid_state", "the callback does not belong to this visitor");
    }
    if (!issuer.equals(back.get("iss"))) {
      throw refused("invalid_issuer", "the callback is of another service");
    }
    String code = back.get("code");
    if (code == null) {
      throw refused(back.getOrDefault("error", "invalid_request"), back.getOrDefault("error_description", "the callback has no code"));
    }
    Tokens tokens = exchange(code, Map.of("grant_type", "authorization_code", "code", code, "redirect_uri", redirectUri,
        "code_verifier", pending.codeVerifier()));
    return store.update(link, before -> tokens);
  }

  private static LinkRefusedException refused(String reason, String description) {
    return new LinkRefusedException(reason, reason + ": " + description);
  }

  /** Ends a link at the service and forgets its tokens. */
  public void unlink(String link) throws IOException, InterruptedException {
    store.update(link, tokens -> {
      if (tokens != null) {
        post("/api/oauth/revoke", null, Map.of("token", tokens.refreshToken() == null ? tokens.accessToken() : tokens.refreshToken()));
      }
      return null;
    });
  }

  /** The generated client of one link, for its APIs: {@code new WalletApi(app.client(link))}. It throws {@link LinkAgainException}. */
  public ApiClient client(String link) {
    var linked = new Linked(link);
    var client = new ApiClient() {
      @Override
      public HttpClient getHttpClient() {
        return linked;
      }
    };
    client.updateBaseUri(baseUrl);
    return client;
  }

  /** Adds the token of a link. A request whose token was rejected had no effect, so it is sent once more with the next token. */
  private final class Linked extends RetryingClient {
    private final String link;

    Linked(String link) {
      super(http, retries);
      this.link = link;
    }

    @Override
    HttpResponse<byte[]> sendWhole(HttpRequest request) throws IOException, InterruptedException {
      Tokens tokens = tokens(link, null);
      var response = super.sendWhole(with(request, tokens));
      return response.statusCode() == 401 ? super.sendWhole(with(request, tokens(link, tokens.accessToken()))) : response;
    }

    private HttpRequest with(HttpRequest request, Tokens tokens) {
      return HttpRequest.newBuilder(request, (name, value) -> !name.equalsIgnoreCase("Authorization"))
          .header("Authorization", "Bearer " + tokens.accessToken()).build();
    }
  }

  /** Valid tokens other than the rejected one. */
  private Tokens tokens(String link, String rejected) throws IOException, InterruptedException {
    Tokens read = store.read(link);
    if (read == null) {
      throw linkAgain(link, "it has no tokens");
    }
    if (good(read, rejected)) {
      return read;
    }
    String[] reason = {"it has no tokens"};
    Tokens renewed = store.update(link, tokens -> {
      if (tokens == null || good(tokens, rejected)) {
        return tokens; // another caller was first
      }
      if (tokens.refreshToken() == null) {
        reason[0] = "the access token expired and offline_access was not granted";
        return null;
      }
      try {
        return exchange(tokens.refreshToken(), Map.of("grant_type", "refresh_token", "refresh_token", tokens.refreshToken()));
      } catch (TokenEndpointException e) {
        if (!e.reason().equals("invalid_grant")) {
          throw e;
        }
        reason[0] = e.getMessage();
        return null;
      }
    });
    if (renewed == null) {
      throw linkAgain(link, reason[0]);
    }
    return renewed;
  }

  private static LinkAgainException linkAgain(String link, String reason) {
    return new LinkAgainException(link, link + " must link again: " + reason);
  }

  private static boolean good(Tokens tokens, String rejected) {
    Duration margin = tokens.refreshToken() == null ? Duration.ZERO : EARLY;
    return !tokens.accessToken().equals(rejected) && tokens.expiresAt().isAfter(Instant.now().plus(margin));
  }

  /**
   * Redeems a code or a refresh token, which can be used once. The Idempotency-Key is made of it: a retry within 60 seconds, after a lost
   * response or a crash before the tokens were stored, gets the same response.
   */
  private Tokens exchange(String spent, Map<String, String> grant) throws IOException, InterruptedException {
    Instant began = Instant.now();
    JsonNode got = post("/api/oauth/token", HexFormat.of().formatHex(sha256(spent)), grant);
    return new Tokens(got.path("access_token").asText(), began.plusSeconds(got.path("expires_in").asLong()), got.path("scope").asText(),
        got.path("refresh_token").asText(null));
  }

  /** All tries end within the 60 seconds for which the service stores its response. */
  private JsonNode post(String path, String key, Map<String, String> fields) throws IOException, InterruptedException {
    var all = new LinkedHashMap<>(fields);
    all.put("client_id", clientId);
    all.put("client_secret", clientSecret);
    var request = HttpRequest.newBuilder(URI.create(baseUrl + path)).header("Content-Type", "application/x-www-form-urlencoded")
        .POST(HttpRequest.BodyPublishers.ofString(form(all)));
    if (key != null) {
      request.header("Idempotency-Key", key);
    }
    var bounded = new Retries(4, retries.pause(), Duration.ofSeconds(5), Duration.ofSeconds(10));
    var response = new RetryingClient(http, bounded).sendWhole(request.build());
    JsonNode content;
    try {
      content = JSON.readTree(response.body());
    } catch (IOException e) {
      content = JSON.createObjectNode();
    }
    if (response.statusCode() != 200) {
      String reason = content.path("error").asText("unknown");
      throw new TokenEndpointException(reason, response.statusCode() + " " + reason + ": "
          + content.path("error_description").asText("the response is not one of this API"));
    }
    return content;
  }

  private static String form(Map<String, String> fields) {
    return fields.entrySet().stream().map(e -> e.getKey() + "=" + URLEncoder.encode(e.getValue(), StandardCharsets.UTF_8))
        .collect(Collectors.joining("&"));
  }

  private static String random() {
    byte[] bytes = new byte[32];
    RANDOM.nextBytes(bytes);
    return Base64.getUrlEncoder().withoutPadding().encodeToString(bytes);
  }

  private static byte[] sha256(String text) {
    try {
      return MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e);
    }
  }
}
