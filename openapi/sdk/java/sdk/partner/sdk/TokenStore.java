package partner.sdk;

import java.io.IOException;

/** Keeps tokens, which are secrets: encrypt them where you keep them. Null means that there are none. */
public interface TokenStore {
  /** The tokens of a link as they are now. */
  Tokens read(String link) throws IOException;

  /**
   * Calls {@code change} with the current tokens of a link, stores what it returns, and returns it. If it throws, nothing changes. For
   * one link only one change runs at a time, across all your processes: in a database that is a transaction with SELECT … FOR UPDATE.
   */
  Tokens update(String link, Change change) throws IOException, InterruptedException;

  /** Computes the next tokens of a link. */
  @FunctionalInterface
  interface Change {
    /** The tokens to store; null forgets them. */
    Tokens apply(Tokens current) throws IOException, InterruptedException;
  }
}
