package app

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"partnerd/internal/payment"
)

// checkMoney reports what is wrong with the settings of payments.
func (c *Config) checkMoney() error {
	test := strings.HasPrefix(c.StripeSecretKey, "sk_test_") || strings.HasPrefix(c.StripeSecretKey, "rk_test_")
	switch {
	case (c.StripeSecretKey == "") != (c.StripeWebhookSecret == ""):
		return errors.New("PARTNERD_STRIPE_SECRET_KEY and PARTNERD_STRIPE_WEBHOOK_SECRET: one does not work without the other")
	case c.StripeSecretKey != "" && test != c.Sandbox():
		return errors.New("PARTNERD_STRIPE_SECRET_KEY: a sandbox takes a test key of Stripe, live takes none of those")
	}
	return nil
}

// payments makes the service with the provider that is configured.
func (a *App) payments(noticeSecret string) *payment.Service {
	c := payment.Config{BaseURL: a.Config.BaseURL, Sandbox: a.Config.Sandbox(), NoticeSecret: noticeSecret, Logger: a.Logger}
	if a.Config.StripeSecretKey != "" {
		c.Provider = payment.NewStripe(payment.StripeConfig{SecretKey: a.Config.StripeSecretKey, WebhookSecret: a.Config.StripeWebhookSecret})
	}
	return payment.New(a.Wallet, c)
}

const minOpsPassword = 16

// opsPassword is the one of the operators' page. A sandbox without one makes its own, kept in the data folder; live
// without one has no such page.
func (c *Config) opsPassword() (string, error) {
	if c.OpsPassword != "" || !c.Sandbox() {
		return c.OpsPassword, nil
	}
	path := c.path("ops-password")
	if err := os.MkdirAll(c.DataDir, 0o711); err != nil {
		return "", fmt.Errorf("make data folder: %w", err)
	}
	// It appears whole: of several processes that start at once one wins, and all read the same.
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := publish(path, rand.Text()+"\n"); err != nil {
			return "", fmt.Errorf("make operators' password: %w", err)
		}
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("read operators' password: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// publish writes a private file unless there is one.
func publish(path, content string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
