package partner.sdk;

/** Why a request is not from the service: respond with 400. */
public final class WebhookException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What it is about, for programs. */
  private final String reason;

  WebhookException(String reason, String message) {
    super(message);
    this.reason = reason;
  }

  /** "malformed", "mismatch" or "expired". */
  public String reason() {
    return reason;
  }
}
