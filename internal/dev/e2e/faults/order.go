package faults

import (
	"fmt"

	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/webhook"
)

// Order checks the events of one consultation. It returns nil if a path through the state table emits exactly these
// events in this order. A path consists of whole steps only.
func Order(types []webhook.Type) error {
	ways := map[consultation.Status]bool{"": true}
	at := map[int]map[consultation.Status]bool{0: ways} // possible states by number of events seen
	for n := range types {
		for from := range at[n] {
			for _, s := range consultation.Steps() {
				if s.From == from && follows(types[n:], s.Events) {
					if at[n+len(s.Events)] == nil {
						at[n+len(s.Events)] = map[consultation.Status]bool{}
					}
					at[n+len(s.Events)][s.To] = true
				}
			}
		}
	}
	if len(at[len(types)]) == 0 {
		return fmt.Errorf("no path through the states emits %v", types)
	}
	return nil
}

func follows(types, events []webhook.Type) bool {
	if len(events) == 0 || len(events) > len(types) {
		return false
	}
	for i, e := range events {
		if types[i] != e {
			return false
		}
	}
	return true
}
