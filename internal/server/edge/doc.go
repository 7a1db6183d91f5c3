// Package edge handles the parts of HTTP that net/http decides before a handler runs, or after it has responded.
//
//   - A refusal reaches its caller. Closing a connection while the caller is still sending would reset it and lose the
//     response. [Listener] therefore closes in two steps: it ends its own side, reads on for a bounded number of bytes
//     and time, and then closes.
//   - Requests that net/http itself refuses get our usual error format with an X-Request-Id. These are an unreadable or
//     oversized request line or header, and an unsupported version.
//   - Equivalent spellings of a path are routed alike: [Handler] decodes them first (RFC 3986 section 6.2.2).
//   - HEAD works wherever GET does.
//   - Only public content is compressed and revalidated ([Document]).
//
// The package depends on no operation and no database.
package edge
