//go:build forgetful

package main

import "partner-sdk/generated/partner"

// The analyzer must reject these switches: a code and an event have no case.

func forgetfulOfCodes(code partner.CreateConsultationConflictErrorCode) bool {
	switch code {
	case partner.CreateConsultationConflictErrorCodeINSUFFICIENTFUNDS,
		partner.CreateConsultationConflictErrorCodeIDEMPOTENCYCONFLICT,
		partner.CreateConsultationConflictErrorCodeIDEMPOTENCYINPROGRESS:
		return true
	}
	return false
}

func forgetfulOfEvents(kind partner.EventType) bool {
	switch kind {
	case partner.EventTypeConsultationCreated, partner.EventTypeConsultationPaymentAuthorized,
		partner.EventTypeConsultationMatching, partner.EventTypeConsultationAssigned,
		partner.EventTypeConsultationCallStarted, partner.EventTypeConsultationCallEnded,
		partner.EventTypeConsultationCompleted, partner.EventTypeConsultationNoteAvailable,
		partner.EventTypeConsultationPendingCallback, partner.EventTypeConsultationCancelled,
		partner.EventTypeConsultationRefunded:
		return true
	}
	return false
}
