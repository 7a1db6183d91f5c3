package partner.sdk;

/** The client has to link again: there are no tokens, or a refresh was rejected and the tokens are forgotten. */
public final class LinkAgainException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What it is about, for programs. */
  private final String reason;

  LinkAgainException(String reason, String message) {
    super(message);
    this.reason = reason;
  }

  /** The name of the link. */
  public String reason() {
    return reason;
  }
}
