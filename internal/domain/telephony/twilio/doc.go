// Package twilio is the [telephony.Provider] for Twilio's Programmable Voice and for providers with the same protocol.
//
// Tables: twilio_legs.
//
// A call is a conference named by the call's ID. When a leg answers, it is asked to press 1. Bridge then sends it into
// the conference; the lawyer, who enters first, waits there. All documents are sent with the requests, so none has to
// be fetched. The paths of callbacks contain only the ID of a command and the kind.
//
// Callbacks:
//   - A callback counts only if it has the provider's signature.
//   - Its content is stored with its leg, and the meaning of all legs is computed from that (rules.go). Callbacks may
//     therefore be lost, late, duplicated or out of order.
//   - Lost callbacks are recovered by queries: Report reads the call resources, and the conference for its
//     participants.
//   - The provider does not list participants who have left. A client's leg that ended after being sent into the
//     conference therefore counts as having been in it, unless it ended immediately.
//
// Dialling:
//   - No one is dialled twice. A leg is stored before it is dialled.
//   - If the response is lost, the call is recognised by its first callback, whose path names the command. Otherwise it
//     is looked up in the list of calls by number, caller and age. It is dialled again only if it appears in neither
//     within the settling time.
//   - One gap remains: the provider accepts a call, sends no callback and lists it only after that time. Then two legs
//     ring, and the leg whose callback comes second is hung up at that callback.
//   - A leg that is placed again ends the previous leg, whose later events are ignored.
//
// Other invariants:
//   - A person has to press 1, whatever machine detection says. Detection runs during the prompt, so no one who answers
//     waits in silence.
//   - The conference's limit enforces the maximum duration of the conversation. Each leg also has its own limit.
//   - No number is in a row, a log, a path or an error. Nothing is recorded.
//
// Limitation: a dropped line looks like a hang-up if the carrier reports both as a normal end. In that case the call is
// over. Only a leg that ends as failed is called back.
package twilio
