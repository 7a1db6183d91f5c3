package partner.sdk;

import java.io.IOException;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;

/** Keeps tokens as long as the process runs: for tests, and as an example. */
public final class MemoryTokenStore implements TokenStore {
  private final Map<String, Tokens> tokens = new ConcurrentHashMap<>();
  private final Map<String, Lock> locks = new ConcurrentHashMap<>();

  @Override
  public Tokens read(String link) {
    return tokens.get(link);
  }

  @Override
  public Tokens update(String link, Change change) throws IOException, InterruptedException {
    Lock lock = locks.computeIfAbsent(link, name -> new ReentrantLock());
    lock.lockInterruptibly();
    try {
      Tokens next = change.apply(tokens.get(link));
      if (next == null) {
        tokens.remove(link);
      } else {
        tokens.put(link, next);
      }
      return next;
    } finally {
      lock.unlock();
    }
  }
}
