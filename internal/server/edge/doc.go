// Package edge is what stands between connections and handlers: everything about HTTP that net/http decides before a
// handler is asked, or after it has answered.
//
//   - A refusal reaches its caller. A connection that is closed while the caller still sends is reset by the system,
//     and the answer with it, so [Listener] closes in two steps: it ends its own side, reads on for a bounded number of
//     bytes and time, then lets go.
//   - What net/http itself refuses (a request line or header that cannot be read, too large, of another version) is
//     answered in the form of every other error of ours, with an X-Request-Id.
//   - Two spellings of one path are one path: [Handler] decodes what RFC 3986 section 6.2.2 calls equivalent before it
//     is routed.
//   - Whatever can be read can be asked for with HEAD.
//   - Public content is compressed and revalidated; nothing else is ([Document]).
//
// It knows no operation and no database.
package edge
