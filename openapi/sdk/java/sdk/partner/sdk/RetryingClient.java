package partner.sdk;

import java.io.IOException;
import java.net.Authenticator;
import java.net.CookieHandler;
import java.net.ProxySelector;
import java.net.http.HttpClient;
import java.net.http.HttpHeaders;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeParseException;
import java.util.List;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;

/**
 * Retries, after a pause, what got a 429, a 503 or no response. It retries what is safe to repeat: reads, cancellations, revocations, and
 * every request with an Idempotency-Key. A POST that takes a key and has none gets one, the same for all its tries. Responses are read
 * whole, so a connection lost halfway is retried too.
 */
class RetryingClient extends HttpClient {
  private static final String KEY = "Idempotency-Key";
  private static final Pattern TAKES_KEY = Pattern.compile("/api/v1/(consultations|wallet/topup-session)");
  private static final Pattern HARMLESS_TWICE = Pattern.compile("/api/(v1/consultations/[^/]+/cancel|oauth/revoke)");

  private final HttpClient base;
  private final Retries retries;

  RetryingClient(HttpClient base, Retries retries) {
    this.base = base;
    this.retries = retries;
  }

  @Override
  public <T> HttpResponse<T> send(HttpRequest request, HttpResponse.BodyHandler<T> handler) throws IOException, InterruptedException {
    return read(sendWhole(request), handler);
  }

  HttpResponse<byte[]> sendWhole(HttpRequest request) throws IOException, InterruptedException {
    String path = request.uri().getPath();
    var builder = HttpRequest.newBuilder(request, (name, value) -> true).timeout(retries.timeout());
    boolean keyed = request.headers().firstValue(KEY).isPresent();
    if (!keyed && request.method().equals("POST") && TAKES_KEY.matcher(path).matches()) {
      builder.header(KEY, UUID.randomUUID().toString());
      keyed = true;
    }
    boolean repeatable = keyed || List.of("GET", "HEAD").contains(request.method()) || HARMLESS_TWICE.matcher(path).matches();
    HttpRequest sent = builder.build();
    for (int turn = 1; ; turn++) {
      boolean last = !repeatable || turn >= retries.tries();
      long pause = retries.pause().toMillis() << (turn - 1);
      pause -= ThreadLocalRandom.current().nextLong(pause / 2 + 1);
      try {
        var response = base.send(sent, HttpResponse.BodyHandlers.ofByteArray());
        if (last || response.statusCode() != 429 && response.statusCode() != 503) {
          return response;
        }
        pause += retryAfter(response.headers()).toMillis();
        if (pause > retries.longest().toMillis()) {
          return response;
        }
      } catch (IOException lost) {
        if (last) {
          throw lost;
        }
      }
      Thread.sleep(Math.min(pause, retries.longest().toMillis()));
    }
  }

  /** What a response asks to wait: seconds or a date. */
  private static Duration retryAfter(HttpHeaders headers) {
    String value = headers.firstValue("Retry-After").orElse("");
    if (value.matches("[0-9]{1,9}")) {
      return Duration.ofSeconds(Long.parseLong(value));
    }
    try {
      var until = Duration.between(Instant.now(), ZonedDateTime.parse(value, DateTimeFormatter.RFC_1123_DATE_TIME));
      return until.isNegative() ? Duration.ZERO : until;
    } catch (DateTimeParseException none) {
      return Duration.ZERO;
    }
  }

  /** The same response with the body as its caller wants it. */
  private static <T> HttpResponse<T> read(HttpResponse<byte[]> response, HttpResponse.BodyHandler<T> handler) {
    var subscriber = handler.apply(new HttpResponse.ResponseInfo() {
      @Override
      public int statusCode() {
        return response.statusCode();
      }

      @Override
      public HttpHeaders headers() {
        return response.headers();
      }

      @Override
      public HttpClient.Version version() {
        return response.version();
      }
    });
    subscriber.onSubscribe(new Flow.Subscription() {
      @Override
      public void request(long n) {}

      @Override
      public void cancel() {}
    });
    if (response.body().length > 0) {
      subscriber.onNext(List.of(ByteBuffer.wrap(response.body())));
    }
    subscriber.onComplete();
    T body = subscriber.getBody().toCompletableFuture().join();
    return new HttpResponse<>() {
      @Override
      public int statusCode() {
        return response.statusCode();
      }

      @Override
      public HttpRequest request() {
        return response.request();
      }

      @Override
      public Optional<HttpResponse<T>> previousResponse() {
        return Optional.empty();
      }

      @Override
      public HttpHeaders headers() {
        return response.headers();
      }

      @Override
      public T body() {
        return body;
      }

      @Override
      public Optional<javax.net.ssl.SSLSession> sslSession() {
        return response.sslSession();
      }

      @Override
      public java.net.URI uri() {
        return response.uri();
      }

      @Override
      public HttpClient.Version version() {
        return response.version();
      }
    };
  }

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(HttpRequest request, HttpResponse.BodyHandler<T> handler) {
    throw new UnsupportedOperationException("this client is synchronous");
  }

  @Override
  public <T> CompletableFuture<HttpResponse<T>> sendAsync(
      HttpRequest request, HttpResponse.BodyHandler<T> handler, HttpResponse.PushPromiseHandler<T> push) {
    throw new UnsupportedOperationException("this client is synchronous");
  }

  @Override
  public Optional<CookieHandler> cookieHandler() {
    return base.cookieHandler();
  }

  @Override
  public Optional<Duration> connectTimeout() {
    return base.connectTimeout();
  }

  @Override
  public Redirect followRedirects() {
    return base.followRedirects();
  }

  @Override
  public Optional<ProxySelector> proxy() {
    return base.proxy();
  }

  @Override
  public SSLContext sslContext() {
    return base.sslContext();
  }

  @Override
  public SSLParameters sslParameters() {
    return base.sslParameters();
  }

  @Override
  public Optional<Authenticator> authenticator() {
    return base.authenticator();
  }

  @Override
  public Version version() {
    return base.version();
  }

  @Override
  public Optional<Executor> executor() {
    return base.executor();
  }
}
