package partner.sdk;

import java.time.Duration;

/**
 * How requests are retried.
 *
 * @param tries most tries of a request
 * @param pause before the second try, doubled before each further one, less up to half at random
 * @param longest longest pause; a longer Retry-After is returned
 * @param timeout in which a whole response must arrive
 */
public record Retries(int tries, Duration pause, Duration longest, Duration timeout) {
  /** Four tries, from half a second to twenty. */
  public static final Retries DEFAULT = new Retries(4, Duration.ofMillis(500), Duration.ofSeconds(20), Duration.ofSeconds(30));
}
