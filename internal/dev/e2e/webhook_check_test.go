package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// judgeWebhook returns what is wrong with a delivery (R120, R128–R134). now is in Unix seconds.
func (c *contract) judgeWebhook(r *http.Request, raw []byte, now int64) (faults []string) {
	eventType := r.Header.Get("X-Service-Event")
	op := c.webhooks[eventType]
	if op == nil && c == spec {
		return platformSpec.judgeWebhook(r, raw, now)
	}
	if op == nil {
		return []string{"X-Service-Event is not a documented type"}
	}
	seen.add("webhook %s", eventType)
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		faults = append(faults, fmt.Sprintf("came as %s %s", r.Method, r.Header.Get("Content-Type")))
	}
	for _, p := range op.parameters {
		faults = append(faults, p.judge(p.name, r.Header.Values(p.name))...)
	}
	value, more := validate(op.body.schema, raw)
	faults = append(faults, more...)
	if extra := c.undeclared(op.body.raw, value, ""); len(extra) > 0 {
		faults = append(faults, fmt.Sprintf("carries undocumented properties %v", extra))
	}
	if value["type"] != eventType {
		faults = append(faults, fmt.Sprintf("type is %v, X-Service-Event %s (R130)", value["type"], eventType))
	}
	faults = append(faults, judgeTimes(raw)...)
	if bytes.Contains(raw, []byte(canary)) {
		faults = append(faults, "carries the privileged note")
	}
	stamp, _, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("X-Service-Signature"), "t="), ",")
	if sent, err := strconv.ParseInt(stamp, 10, 64); err != nil || now-sent > 2 || sent-now > 2 {
		faults = append(faults, fmt.Sprintf("was signed at %s and arrived at %d (R133)", stamp, now))
	}
	return faults
}
