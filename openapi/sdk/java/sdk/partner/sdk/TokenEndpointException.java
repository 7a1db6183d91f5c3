package partner.sdk;

/** The token endpoint rejected a request for a reason that linking again does not change: wrong credentials, a suspended application. */
public final class TokenEndpointException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What it is about, for programs. */
  private final String reason;

  TokenEndpointException(String reason, String message) {
    super(message);
    this.reason = reason;
  }

  /** The "error" of the response, such as "invalid_client". */
  public String reason() {
    return reason;
  }
}
