/**
 * Reads a list to its end, a page at a time, newest first.
 * @param read reads the page of a cursor, without a cursor for the first page. Keep the same filters on every page.
 */
export async function* each<T>(read: (cursor: string | undefined) => Promise<{ items: T[]; nextCursor: string | null }>): AsyncGenerator<T, void, undefined> {
  let cursor: string | undefined
  do {
    const page = await read(cursor)
    yield* page.items
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined)
}
