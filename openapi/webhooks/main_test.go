package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestTheContractHasTheWebhooksOfTheSource(t *testing.T) {
	document, short := read(t, "../partner.yaml"), read(t, "webhooks.yaml")
	got, err := withWebhooks(document, short)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, document) {
		t.Error("the webhooks of partner.yaml are not those of webhooks.yaml: edit webhooks.yaml and run make generate")
	}
	changed := bytes.Replace(document, []byte("The first event of a consultation. Store `data.id`."), []byte("By hand."), 1)
	if got, err := withWebhooks(changed, short); err != nil || !bytes.Equal(got, document) {
		t.Errorf("an edit by hand stays: %v", err)
	}
}

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	document, short := read(t, "../partner.yaml"), read(t, "webhooks.yaml")
	for what, in := range map[string][2]string{
		"no schema":   {string(document), strings.Replace(string(short), "  webhook.ping:", "  webhook.pong:", 1)},
		"no webhooks": {strings.Replace(string(document), "\nwebhooks:\n", "\nhooks:\n", 1), string(short)},
		"no YAML":     {string(document), "\t"},
	} {
		if _, err := withWebhooks([]byte(in[0]), []byte(in[1])); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
}
