package mail_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dbtest"
	"partnerd/internal/mail"
	"partnerd/internal/postgres"
	"partnerd/internal/queue"
	"partnerd/internal/seal/sealtest"
)

func TestAMailIsSentAfterItsTransactionAndWaitsSealed(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	db, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	box := sealtest.Box(t)
	log := slog.New(slog.DiscardHandler)
	q, err := queue.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "mail")
	s := mail.New(q, box, mail.Folder{Dir: dir, Logger: log})
	err = db.InTx(t.Context(), func(tx postgres.Tx) error {
		return s.Send(t.Context(), tx, mail.Message{To: "a@client.example", Subject: "Héllo", Text: "The link is CANARY."})
	})
	if err != nil {
		t.Fatal(err)
	}
	var args []byte
	if err := db.Pool().QueryRow(t.Context(), "SELECT args FROM river.river_job").Scan(&args); err != nil || bytes.Contains(args, []byte("CANARY")) {
		t.Errorf("the waiting mail: %s %v", args, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	deadline := time.Now().Add(20 * time.Second)
	var files []string
	for len(files) == 0 && time.Now().Before(deadline) {
		files, _ = filepath.Glob(filepath.Join(dir, "*.eml"))
		<-time.After(20 * time.Millisecond)
	}
	cancel()
	<-ended
	if len(files) != 1 {
		t.Fatalf("%d mails", len(files))
	}
	raw, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(raw), "To: a@client.example") || !strings.Contains(string(raw), "The link is CANARY.") {
		t.Errorf("mail: %s %v", raw, err)
	}
}

func TestMailServersAreNamedByURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"smtp://u:p@mail.example:587", "smtps://mail.example", "smtp://localhost:1025"} {
		if _, err := mail.NewSMTP(good, "a@b.example"); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "mail.example", "http://mail.example", "smtp://"} {
		if _, err := mail.NewSMTP(bad, "a@b.example"); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
}
