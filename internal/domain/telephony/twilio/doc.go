// Package twilio is the [telephony.Provider] for Twilio's Programmable Voice, and for providers that speak its
// protocol.
//
// Tables: twilio_legs.
//
// A call is a conference named by the call's id. Each leg is asked to press 1 when it is answered, and is sent into it
// by Bridge; the lawyer, who is first, waits there. All documents are given with the request, so none is fetched from
// an address that tells anything; the addresses of notices hold the id of a command and nothing else.
//
// Invariants:
//   - A notice counts only with the provider's signature. What it says is noted at its leg, and what all legs of a call
//     mean is computed from that (rules.go): notices may be lost, late, doubled or in any order.
//   - Lost notices are made up for by asking: Report reads the call resources, and the conference for who is in it. The
//     provider lists no one who has left, so a client's leg that ended after it was sent into the conference is
//     taken to have been in it, unless it ended at once.
//   - Nobody is dialled twice. A leg is written down before it is dialled. When the answer is lost, the call is
//     recognized by its first notice, whose address names the command, or looked for in the list of calls by
//     number, caller and age. It is dialled again only if it appears in neither for the time of settling. A window
//     remains: a provider that took a call, posted no notice of it and listed it later than that. Then two legs ring,
//     and the one whose notice comes second is hung up at that notice.
//   - A leg that is placed again ends the one before it, which means nothing from then on.
//   - A person has to press 1 whatever machine detection says. A machine is told apart while it greets, beside the
//     question, so nobody who answers waits in silence for it.
//   - The talk is held to its longest time by the conference's limit, and each leg by a limit of its own.
//   - No number is in a row, a log, an address or an error. Nothing is recorded.
//
// What it cannot tell: a line that dropped from one that was hung up, when the carrier reports both as a normal end.
// Then the call is over; only a leg that ends as failed is called back.
package twilio
