package telemetry

import "go.opentelemetry.io/otel/attribute"

// Key is the name of a span attribute.
type Key string

// Attributes of spans: our own names, numbers and IDs. An attribute that is not listed is not exported, whoever set it.
const (
	Method    Key = "http.request.method"
	Route     Key = "http.route" // the template, never the path
	Status    Key = "http.response.status_code"
	ErrorType Key = "error.type"

	// A server that is called: one of the deployment's providers, as configured.
	ServerAddress Key = "server.address"
	ServerPort    Key = "server.port"
	Protocol      Key = "network.protocol.name"
	System        Key = "db.system.name"
	Operation     Key = "db.operation.name"

	RequestID      Key = "partnerd.request.id"
	ApplicationID  Key = "partnerd.application.id"
	ClientID       Key = "partnerd.client.id"
	ConsultationID Key = "partnerd.consultation.id"
	LawyerID       Key = "partnerd.lawyer.id"
	CallID         Key = "partnerd.call.id"
	CommandID      Key = "partnerd.command.id"
	DeliveryID     Key = "partnerd.delivery.id"
	EventType      Key = "partnerd.event.type" // of a webhook, or of a telephony event
	Sequence       Key = "partnerd.event.sequence"
	Attempt        Key = "partnerd.attempt"
	JobName        Key = "partnerd.job"
	Trigger        Key = "partnerd.trigger" // what made a consultation change state
	Found          Key = "partnerd.found"   // number of lawyers who are offered the consultation
	From           Key = "partnerd.status.from"
	To             Key = "partnerd.status.to"
)

// leaves reports whether an attribute may be exported. The first group is set by the library that traces statements.
func leaves(k attribute.Key) bool {
	switch k {
	case "db.query.text", "pgx.rows_affected", "pgx.sql_state":
		return true
	}
	switch Key(k) {
	case Method, Route, Status, ErrorType, ServerAddress, ServerPort, Protocol, System, Operation, RequestID,
		ApplicationID, ClientID, ConsultationID, LawyerID, CallID, CommandID, DeliveryID, EventType, Sequence, Attempt,
		JobName, Trigger, Found, From, To:
		return true
	}
	return false
}
