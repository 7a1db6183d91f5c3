package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/sms"
)

// The kinds of messages.
const (
	Email       = "EMAIL"
	TextMessage = "TEXT_MESSAGE"
)

const (
	keepMessages = 7 * 24 * time.Hour
	messageBatch = 1000 // rows per statement
	nowhere      = ".example"
)

// Inbox stores what is sent to applications' test clients, for seven days.
type Inbox struct {
	db       *postgres.DB
	box      *seal.Box
	accounts *account.Service
}

// NewInbox creates an inbox; box encrypts the messages.
func NewInbox(db *postgres.DB, box *seal.Box, accounts *account.Service) *Inbox {
	return &Inbox{db, box, accounts}
}

// Message is an email or a text message to a test client.
type Message struct {
	ID       string    `json:"-"`
	ClientID string    `json:"-"`
	Kind     string    `json:"-"` // [Email] or [TextMessage]
	SentAt   time.Time `json:"-"`

	To      string `json:"to"`
	Subject string `json:"subject"` // empty for a text message
	Text    string `json:"text"`
}

// MessageFilter selects messages. An empty field matches all.
type MessageFilter struct{ ClientID, Kind string }

// List returns up to limit messages to the test clients of an application, newest first. It starts after the message
// with the ID before, or with the newest if before is empty. more reports whether more follow.
func (i *Inbox) List(ctx context.Context, tx postgres.Tx, applicationID string, f MessageFilter, before string,
	limit int,
) (list []Message, more bool, err error) {
	rows, err := listMessages(ctx, tx, applicationID, f, before, limit+1)
	if err != nil {
		return nil, false, err
	}
	if more = len(rows) > limit; more {
		rows = rows[:limit]
	}
	for _, r := range rows {
		m := Message{ID: r.ID, ClientID: r.ClientID, Kind: r.Kind, SentAt: r.SentAt}
		plain, err := i.box.Open(messagePlace(r.ID), r.Sealed)
		if err != nil {
			return nil, false, err
		}
		if err := json.Unmarshal(plain, &m); err != nil {
			return nil, false, fmt.Errorf("read message: %w", err)
		}
		list = append(list, m)
	}
	return list, more, nil
}

// Purge deletes messages older than seven days.
func (i *Inbox) Purge(ctx context.Context) (total int, err error) {
	for {
		tx := i.db.Read()
		n, err := purgeMessages(ctx, tx, tx.Now.Add(-keepMessages), messageBatch)
		total += n
		if err != nil || n < messageBatch {
			return total, err
		}
	}
}

// Mail returns a sender that stores emails to test clients and passes all emails to next. far says that next sends real
// emails; those to addresses under .example, which do not exist, are then not passed on.
func (i *Inbox) Mail(next mail.Sender, far bool) mail.Sender { return mailInbox{i, next, far} }

// SMS returns a sender that stores text messages to test clients and passes all messages to next. far says that next
// sends to real phones; messages to test clients are then not passed on, because the numbers are not theirs.
func (i *Inbox) SMS(next sms.Sender, far bool) sms.Sender { return smsInbox{i, next, far} }

// Keeps reports whether a client is a test client, whose text messages go to no phone.
func (i *Inbox) Keeps(ctx context.Context, tx postgres.Tx, clientID string) (bool, error) {
	return isTestClient(ctx, tx, clientID)
}

type mailInbox struct {
	*Inbox
	next mail.Sender
	far  bool
}

// Send implements [mail.Sender].
func (i mailInbox) Send(ctx context.Context, m mail.Message) error {
	if !i.far || !strings.HasSuffix(strings.ToLower(m.To), nowhere) {
		if err := i.next.Send(ctx, m); err != nil {
			return err
		}
	}
	client, err := i.accounts.ByEmail(ctx, i.db.Read(), m.To)
	if errors.Is(err, problem.ErrNotFound) {
		return nil
	}
	if err == nil {
		_, err = i.keep(ctx, client.ID, Message{Kind: Email, To: m.To, Subject: m.Subject, Text: m.Text})
	}
	return err
}

type smsInbox struct {
	*Inbox
	next sms.Sender
	far  bool
}

// Send implements [sms.Sender].
func (i smsInbox) Send(ctx context.Context, m sms.Message) error {
	kept, err := i.keep(ctx, m.ClientID, Message{Kind: TextMessage, To: m.To, Text: m.Text})
	if err != nil {
		return fmt.Errorf("%w: %w", sms.ErrNotSent, err)
	}
	if kept && i.far {
		return nil
	}
	return i.next.Send(ctx, m)
}

// keep stores a message to a test client. It returns false for any other client.
func (i *Inbox) keep(ctx context.Context, clientID string, m Message) (kept bool, err error) {
	if clientID == "" {
		return false, nil
	}
	err = i.db.InTx(ctx, func(tx postgres.Tx) error {
		applicationID, err := creatorOf(ctx, tx, clientID)
		if err != nil || applicationID == "" {
			return err
		}
		raw, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("write message: %w", err)
		}
		r := messageRow{ID: tx.NewID(id.Message), ApplicationID: applicationID, ClientID: clientID, Kind: m.Kind,
			SentAt: tx.Now}
		if r.Sealed, err = i.box.Seal(messagePlace(r.ID), raw); err != nil {
			return err
		}
		kept = true
		return insertMessage(ctx, tx, r)
	})
	return kept, err
}

func messagePlace(messageID string) string { return "sandbox.message:" + messageID }
