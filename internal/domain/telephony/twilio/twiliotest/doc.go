// Package twiliotest is a stand-in for the telephony provider that package twilio speaks to: an HTTP server with the
// documented interface of Calls and Conferences, which carries out the documents that it is given, plays the people on
// the phone by a [Script], and posts signed notices, also lost, late, doubled and reordered ones.
//
// Everything that happens is a step with an instant. [Server.Run] carries the steps out as time goes by; a test with a
// clock of its own moves that to [Server.Next] and calls [Server.Due] instead, and waits for nothing.
//
// It is for tests, and for trying a live deployment without calling anybody: a small program is in folder standin.
package twiliotest
