// Package twiliotest is a stand-in for the telephony provider used by package twilio.
//
// It is an HTTP server with the documented API of Calls and Conferences. It executes the documents it receives,
// simulates the people on the phone by a [Script] and sends signed callbacks. They can also be lost, late, duplicated
// or reordered.
//
// Everything that happens is a step with a time. [Server.Run] executes the steps as time passes. A test with its own
// clock instead advances it to [Server.Next] and calls [Server.Due], and never waits.
//
// It is meant for tests, and for trying a live deployment without calling anyone: folder standin contains a small
// program.
package twiliotest
