package partner.sdk;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;
import partner.ApiClient;
import partner.model.EventType;
import partner.model.WebhookEvent;

/**
 * A genuine webhook.
 *
 * @param id the same for every delivery of an event: ignore an event that you have handled
 * @param type type of the event
 * @param event null when the type is newer than this package: respond with 2xx and continue
 * @param sequence counts the events of a consultation from 1; 0 for none. The signature does not cover it.
 * @param test whether you requested it as a test. The signature does not cover it.
 */
public record Webhook(String id, String type, WebhookEvent event, long sequence, boolean test) {
  private static final ObjectMapper JSON = ApiClient.createDefaultObjectMapper();
  private static final Pattern HEADER = Pattern.compile("t=([0-9]{10}),v1=([0-9a-f]{64})");
  private static final Duration TOLERANCE = Duration.ofSeconds(300);

  /** Checks one signature of a body, as the bytes that were received. Returns "malformed", "mismatch", "expired", or null when it is valid. */
  public static String signatureFault(String secret, String header, byte[] body, Instant now) {
    var parts = HEADER.matcher(header == null ? "" : header);
    if (!parts.matches()) {
      return "malformed";
    }
    byte[] right;
    try {
      var mac = Mac.getInstance("HmacSHA256");
      mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
      mac.update((parts.group(1) + ".").getBytes(StandardCharsets.US_ASCII));
      right = mac.doFinal(body);
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
    if (!MessageDigest.isEqual(right, HexFormat.of().parseHex(parts.group(2)))) {
      return "mismatch";
    }
    var age = Duration.between(Instant.ofEpochSecond(Long.parseLong(parts.group(1))), now).abs();
    return age.compareTo(TOLERANCE) >= 0 ? "expired" : null;
  }

  /** Reads a webhook that the service signed with one of your secrets, now. */
  public static Webhook read(List<String> secrets, Map<String, String> headers, byte[] body) {
    return read(secrets, headers, body, Instant.now());
  }

  /**
   * Reads a webhook that the service signed with one of your secrets. During a rotation give both: one of the two signatures of the request
   * has to match one of them.
   *
   * @param headers of the request, by name
   * @param body the bytes that were received, before anything parsed them
   * @throws WebhookException when it is not genuine
   */
  public static Webhook read(List<String> secrets, Map<String, String> headers, byte[] body, Instant now) {
    var given = new TreeMap<String, String>(String.CASE_INSENSITIVE_ORDER);
    given.putAll(headers);
    var faults = new ArrayList<String>();
    for (String name : List.of("X-Service-Signature", "X-Service-Signature-Previous")) {
      for (String secret : secrets) {
        faults.add(signatureFault(secret, given.get(name), body, now));
      }
    }
    if (!faults.contains(null)) {
      throw fault(faults.contains("expired") ? "expired" : faults.contains("mismatch") ? "mismatch" : "malformed");
    }
    try {
      JsonNode content = JSON.readTree(body);
      if (!content.path("id").isTextual() || !content.path("type").isTextual()) {
        throw fault("malformed");
      }
      String type = content.get("type").asText();
      String sequence = given.getOrDefault("X-Service-Sequence", "");
      return new Webhook(content.get("id").asText(), type, known(type) ? JSON.treeToValue(content, WebhookEvent.class) : null,
          sequence.matches("[0-9]{1,18}") ? Long.parseLong(sequence) : 0, "true".equals(given.get("X-Service-Test")));
    } catch (IOException e) {
      throw fault("malformed");
    }
  }

  private static WebhookException fault(String reason) {
    return new WebhookException(reason, "the webhook is rejected: " + reason);
  }

  private static boolean known(String type) {
    if (type.equals("webhook.ping")) {
      return true;
    }
    try {
      EventType.fromValue(type);
      return true;
    } catch (IllegalArgumentException newer) {
      return false;
    }
  }
}
