package doctor

import (
	"errors"
	"io/fs"
	"strings"

	"partnerd/internal/base/seal"
)

func (e *examination) settings() {
	before := len(e.found)
	for _, r := range e.refused {
		e.fail("settings", r.Error(), "Correct the setting; partnerd does not start with it.")
	}
	if !e.Sandbox() {
		for _, missing := range []struct {
			absent bool
			found  string
			do     string
		}{
			{e.MailServer == "", "no mail server is set: email waits in the queue",
				"Set PARTNERD_MAIL_SERVER and PARTNERD_MAIL_FROM."},
			{e.MailServer != "" && strings.HasSuffix(e.MailFrom, "@localhost"), "the sender of emails is " + e.MailFrom,
				"Set PARTNERD_MAIL_FROM to an address that mail servers accept."},
			{e.SMSServer == "", "no text message provider is set: clients cannot verify phone numbers",
				"Set PARTNERD_SMS_SERVER and PARTNERD_SMS_FROM."},
			{e.Telephony == "", "no telephony provider is set: consultations are refused", "Set PARTNERD_TELEPHONY."},
			{e.StripeSecretKey == "", "no payment provider is set: top-ups are refused",
				"Set PARTNERD_STRIPE_SECRET_KEY."},
			{e.Contact == "" || e.LegalDir == "", "the contact or the legal pages are missing",
				"Set PARTNERD_CONTACT and PARTNERD_LEGAL_DIR."},
			{e.MetricsAddr == "", "no metrics are served, so no alert can fire",
				"Set PARTNERD_METRICS_ADDR, and PARTNERD_METRICS_TOKEN unless the address is local."},
		} {
			if missing.absent {
				e.warn("settings", missing.found, missing.do)
			}
		}
	}
	for _, u := range e.Unread {
		found, do := u.Name+" is not a setting of this version and is ignored",
			"Remove it, unless a newer version running alongside needs it."
		if u.Meant != "" {
			do = "Did you mean " + u.Meant + "? " + do
		}
		e.warn("settings", found, do)
	}
	if found, _, do := e.StandIn(); found != "" {
		e.warn("settings", found, do)
	}
	proxies, _ := e.Proxies()
	for _, p := range proxies {
		if p.Bits() == 0 {
			e.fail("proxy", "PARTNERD_TRUSTED_PROXIES trusts every address, so any visitor can forge theirs",
				"List only the networks of your proxies.")
		}
	}
	if len(e.found) == before {
		e.ok("settings", "all are valid")
	}
}

// keys returns the box that opens the database's secrets, or nil.
func (e *examination) keys() (box *seal.Box) {
	if err := e.CheckNoteKey(); err != nil {
		e.fail("note key", err.Error(), "Keep the private key off the server and the public key on it.")
	} else if !e.tries("note key", "PARTNERD_NOTE_PUBLIC_KEY") || e.NotePublicKey == "" && e.isNew() {
		// there is nothing to read yet
	} else if _, err := e.NoteKey(); errors.Is(err, fs.ErrNotExist) {
		e.fail("note key", err.Error(), "Set PARTNERD_NOTE_PUBLIC_KEY (partnerd key generate).")
	} else if err != nil {
		e.fail("note key", err.Error(),
			"Set PARTNERD_NOTE_PUBLIC_KEY to the public key printed by partnerd key generate.")
	} else {
		e.ok("note key", "the public key is valid")
	}
	if !e.tries("master key", "PARTNERD_MASTER_KEY") {
		return nil
	}
	if e.MasterKey == "" && e.isNew() {
		e.warn("master key", "there is none yet; the first start creates one", firstStart)
		return nil
	}
	master, err := e.Master()
	if err == nil {
		if box, err = seal.OpenBox(master); err != nil {
			err = e.MasterKeyFault(err)
		}
	}
	if err != nil {
		e.fail("master key", err.Error(), "Set PARTNERD_MASTER_KEY to the key of this deployment.")
		return nil
	}
	return box
}
