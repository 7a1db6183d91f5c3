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
		e.fail("settings", r.Error(), "Correct the setting; the program does not start with it.")
	}
	if !e.Sandbox() {
		for _, missing := range []struct {
			absent bool
			found  string
			do     string
		}{
			{e.MailServer == "", "no mail server is set: mail waits in the queue",
				"Set PARTNERD_MAIL_SERVER and PARTNERD_MAIL_FROM."},
			{e.MailServer != "" && strings.HasSuffix(e.MailFrom, "@localhost"), "mail comes from " + e.MailFrom,
				"Set PARTNERD_MAIL_FROM to an address that receivers accept."},
			{e.SMSServer == "", "no provider of text messages is set: clients cannot verify phones",
				"Set PARTNERD_SMS_SERVER and PARTNERD_SMS_FROM."},
			{e.Telephony == "", "no telephony provider is set: no consultation is taken", "Set PARTNERD_TELEPHONY."},
			{e.StripeSecretKey == "", "no payment provider is set: top-ups are refused",
				"Set PARTNERD_STRIPE_SECRET_KEY."},
			{e.Contact == "" || e.LegalDir == "", "people find no contact, or no legal pages",
				"Set PARTNERD_CONTACT and PARTNERD_LEGAL_DIR."},
			{e.MetricsAddr == "", "no metrics are served, so nobody is alarmed",
				"Set PARTNERD_METRICS_ADDR, and PARTNERD_METRICS_TOKEN where others can connect."},
		} {
			if missing.absent {
				e.warn("settings", missing.found, missing.do)
			}
		}
	}
	for _, u := range e.Unread {
		found, do := u.Name+" is no setting of this program: nobody reads it",
			"Take it away, unless a newer program beside this one reads it."
		if u.Meant != "" {
			do = "If " + u.Meant + " is meant, set that. " + do
		}
		e.warn("settings", found, do)
	}
	if found, _, do := e.StandIn(); found != "" {
		e.warn("settings", found, do)
	}
	proxies, _ := e.Proxies()
	for _, p := range proxies {
		if p.Bits() == 0 {
			e.fail("proxy", "PARTNERD_TRUSTED_PROXIES trusts the whole world, so every visitor chooses his address",
				"Name the networks of the proxies only.")
		}
	}
	if len(e.found) == before {
		e.ok("settings", "they agree with each other")
	}
}

// keys returns what opens the database's secrets, or nil.
func (e *examination) keys() (box *seal.Box) {
	if err := e.CheckNoteKey(); err != nil {
		e.fail("note key", err.Error(), "Keep the private half away from the server, and its public half there.")
	} else if !e.tries("note key", "PARTNERD_NOTE_PUBLIC_KEY") || e.NotePublicKey == "" && e.isNew() {
		// nothing to read
	} else if _, err := e.NoteKey(); errors.Is(err, fs.ErrNotExist) {
		e.fail("note key", err.Error(), "Set PARTNERD_NOTE_PUBLIC_KEY (partnerd key generate).")
	} else if err != nil {
		e.fail("note key", err.Error(),
			"Set PARTNERD_NOTE_PUBLIC_KEY to the public half that partnerd key generate printed.")
	} else {
		e.ok("note key", "the public half can be read")
	}
	if !e.tries("master key", "PARTNERD_MASTER_KEY") {
		return nil
	}
	if e.MasterKey == "" && e.isNew() {
		e.warn("master key", "there is none yet, and the first start makes one", firstStart)
		return nil
	}
	master, err := e.Master()
	if err == nil {
		if box, err = seal.OpenBox(master); err != nil {
			err = e.MasterKeyFault(err)
		}
	}
	if err != nil {
		e.fail("master key", err.Error(), "Set PARTNERD_MASTER_KEY to the key that this deployment was made with.")
		return nil
	}
	return box
}
