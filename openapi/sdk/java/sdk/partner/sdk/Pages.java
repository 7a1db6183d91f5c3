package partner.sdk;

import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.function.Function;
import partner.ApiException;

/** Lists that come a page at a time. */
public final class Pages {
  private Pages() {}

  /** Reads the page of a cursor; null for the first page. */
  @FunctionalInterface
  public interface Reader<P> {
    /** Requests one page. Filters stay the same on every page. */
    P read(String cursor) throws ApiException;
  }

  /** An error of the API while a list was read. */
  public static final class PageException extends RuntimeException {
    private static final long serialVersionUID = 1;

    PageException(ApiException cause) {
      super(cause);
    }
  }

  /**
   * Reads a list to its end, newest first: {@code Pages.each(c -> api.listConsultations(null, null, c, null), ConsultationList::getItems,
   * ConsultationList::getNextCursor)}. The iteration throws a {@link PageException}.
   */
  public static <P, T> Iterable<T> each(Reader<P> reader, Function<P, List<T>> items, Function<P, String> next) {
    return () -> new Iterator<>() {
      private final Queue<T> read = new ArrayDeque<>();
      private String cursor;
      private boolean ended;

      @Override
      public boolean hasNext() {
        while (read.isEmpty() && !ended) {
          try {
            P page = reader.read(cursor);
            read.addAll(items.apply(page));
            cursor = next.apply(page);
            ended = cursor == null;
          } catch (ApiException e) {
            throw new PageException(e);
          }
        }
        return !read.isEmpty();
      }

      @Override
      public T next() {
        if (!hasNext()) {
          throw new NoSuchElementException();
        }
        return read.remove();
      }
    };
  }
}
