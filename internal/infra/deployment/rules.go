package deployment

import (
	"errors"
	"fmt"
	"net"
	"net/url"
)

// Environments.
const (
	Sandbox = "sandbox"
	Live    = "live"
)

// Claim is the configuration of a program that opens the database.
type Claim struct {
	Environment string
	BaseURL     string // empty if not configured
	Local       string // base URL of a sandbox on this machine if none is configured
	Serve       bool   // the program serves requests at the base URL
	Move        bool   // the base URL is to be changed to BaseURL
}

// Known is what the database knows.
type Known struct {
	Environment string // empty if unknown
	BaseURL     string // empty if none is recorded
	Recorded    bool   // there is a row; otherwise Environment is inferred from the data
	Mixed       bool   // the database contains data of both environments
}

var (
	errMixed = errors.New("the database holds applications, clients or lawyers of a sandbox and of a live " +
		"deployment; nothing was changed. " +
		`Find out how they met; "partnerd deployment move" then records the environment and the address that are set`)
	errNoAddress = errors.New("PARTNERD_BASE_URL: live needs the public address, like https://partners.example")
	errNoTarget  = errors.New("PARTNERD_BASE_URL: say which address it is to be")
)

// OtherAddress rejects a claim to a base URL that is not the deployment's.
type OtherAddress struct{ Known, Claimed string }

// Error implements error.
func (o OtherAddress) Error() string {
	return fmt.Sprintf("the public address of this deployment is %s and PARTNERD_BASE_URL is %s; nothing was "+
		"changed: set the first, "+
		`or make the second its address with "partnerd deployment move" (tokens, links in mails and passkeys name it)`, o.Known, o.Claimed)
}

// settle returns the base URL for the program, and the one for the database to store. It rejects a claim that
// conflicts.
func settle(k Known, c Claim) (use, keep string, err error) {
	switch {
	case k.Mixed && !c.Move:
		return "", "", errMixed
	case k.Environment != "" && k.Environment != c.Environment:
		return "", "", fmt.Errorf("the database belongs to a %s deployment and PARTNERD_ENV is %s; "+
			"nothing was changed: set PARTNERD_ENV=%s, or another database (PARTNERD_DATABASE_URL, or "+
			"PARTNERD_DATA_DIR)", k.Environment, c.Environment, k.Environment)
	case c.Move && c.BaseURL == "":
		return "", "", errNoTarget
	case c.Move:
		return c.BaseURL, c.BaseURL, nil
	}
	movable := c.Environment == Sandbox && (k.BaseURL == "" || IsLocal(k.BaseURL))
	switch {
	case c.BaseURL == "" && movable && c.Serve:
		return c.Local, c.Local, nil
	case c.BaseURL == "" && k.BaseURL != "":
		return k.BaseURL, k.BaseURL, nil
	case c.BaseURL == "" && c.Environment == Sandbox:
		return c.Local, "", nil
	case c.BaseURL == "":
		return "", "", errNoAddress
	case k.BaseURL == "", c.BaseURL == k.BaseURL, movable && c.Serve && IsLocal(c.BaseURL):
		return c.BaseURL, c.BaseURL, nil
	case movable && IsLocal(c.BaseURL):
		return c.BaseURL, k.BaseURL, nil
	}
	return "", "", OtherAddress{k.BaseURL, c.BaseURL}
}

// IsLocal reports whether the base URL is on this machine.
func IsLocal(baseURL string) bool {
	u, err := url.Parse(baseURL)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}
