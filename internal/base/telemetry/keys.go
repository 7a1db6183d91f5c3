package telemetry

import "go.opentelemetry.io/otel/attribute"

// Key names what is told of a span.
type Key string

// What is told of a span: names, numbers and identifiers of ours. What is not listed does not leave the process,
// whoever set it.
const (
	Method    Key = "http.request.method"
	Route     Key = "http.route" // the template, never the path
	Status    Key = "http.response.status_code"
	ErrorType Key = "error.type"

	// Of a server that is asked: a provider of the deployment's, as it is configured.
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
	EventType      Key = "partnerd.event.type" // of a webhook, or of what the telephony reports
	Sequence       Key = "partnerd.event.sequence"
	Attempt        Key = "partnerd.attempt"
	JobName        Key = "partnerd.job"
	Trigger        Key = "partnerd.trigger" // why a consultation moves
	Found          Key = "partnerd.found"   // how many lawyers are asked
	From           Key = "partnerd.status.from"
	To             Key = "partnerd.status.to"
)

// leaves tells whether an attribute may leave the process. The first are set by the library that traces statements.
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
