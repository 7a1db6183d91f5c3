// Package password hashes people's passwords with argon2id. Secrets that the program generates have full entropy and
// need only a digest (package id).
package password

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"golang.org/x/crypto/argon2"
	"golang.org/x/text/unicode/norm"
)

const (
	lanes     = 1
	saltBytes = 16
	keyBytes  = 32
)

// cost is the cost of one hash.
type cost struct{ memoryKiB, passes uint32 }

var (
	// full takes about 30 ms of one core and 19 MiB of memory (the first choice of the OWASP cheat sheet).
	full = cost{memoryKiB: 19 * 1024, passes: 2}
	// least is the lowest cost that argon2 supports.
	least = cost{memoryKiB: 8, passes: 1}

	cheap atomic.Bool
)

// Cheap(true) makes every later hash almost free, and so worthless as protection; Cheap(false) restores the full cost.
// It is for tests, which create thousands of accounts. Only dbtest may call it (internal/architecture_test.go).
func Cheap(yes bool) { cheap.Store(yes) }

func current() cost {
	if cheap.Load() {
		return least
	}
	return full
}

const maxBytes = 1024

const form = "$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s"

// slots bounds the memory that concurrent sign-ins can use.
var slots = make(chan struct{}, max(2, runtime.GOMAXPROCS(0)))

var encoding = base64.RawStdEncoding

// never returns a text with the form and the cost of a real hash. No password is known to produce it.
func never() string { return encode(current(), make([]byte, saltBytes), make([]byte, keyBytes)) }

// Hash returns the PHC string of plain with a fresh salt. Passwords are compared in Unicode normalization form C, so
// that the same letters match whichever keyboard composed them.
func Hash(plain string) string {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	c := current()
	return encode(c, salt, derive(plain, salt, c.passes, c.memoryKiB, lanes, keyBytes))
}

// Verify reports whether hash was made from plain. An empty hash never matches and costs as much as a real one. Pass it
// if there is no such account, so that the response takes the same time.
func Verify(hash, plain string) bool {
	if hash == "" || len(plain) > maxBytes {
		hash, plain = never(), "x"
	}
	p, err := parse(hash)
	if err != nil {
		return false
	}
	got := derive(plain, p.salt, p.passes, p.memory, p.lanes, uint32(len(p.key)))
	return subtle.ConstantTimeCompare(got, p.key) == 1
}

type parsed struct {
	salt, key      []byte
	passes, memory uint32
	lanes          uint8
}

func parse(hash string) (parsed, error) {
	var p parsed
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, fmt.Errorf("password hash has an unknown form")
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.lanes); err != nil || p.passes == 0 ||
		p.lanes == 0 {
		return p, fmt.Errorf("password hash has unknown costs")
	}
	var err error
	if p.salt, err = encoding.DecodeString(parts[4]); err != nil {
		return p, fmt.Errorf("read salt of password hash: %w", err)
	}
	if p.key, err = encoding.DecodeString(parts[5]); err != nil || len(p.key) < saltBytes {
		return p, fmt.Errorf("password hash is cut short")
	}
	return p, nil
}

func derive(plain string, salt []byte, passes, memory uint32, lanes uint8, size uint32) []byte {
	slots <- struct{}{}
	defer func() { <-slots }()
	return argon2.IDKey([]byte(norm.NFC.String(plain)), salt, passes, memory, lanes, size)
}

func encode(c cost, salt, key []byte) string {
	return fmt.Sprintf(form, argon2.Version, c.memoryKiB, c.passes, lanes, encoding.EncodeToString(salt),
		encoding.EncodeToString(key))
}
