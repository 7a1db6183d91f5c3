package partner.sdk;

/** The client refused, or the callback does not belong to the link that was begun. */
public final class LinkRefusedException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What it is about, for programs. */
  private final String reason;

  LinkRefusedException(String reason, String message) {
    super(message);
    this.reason = reason;
  }

  /** "access_denied" when the client refused; another "error" of the authorize page; "invalid_state" or "invalid_issuer". */
  public String reason() {
    return reason;
  }
}
