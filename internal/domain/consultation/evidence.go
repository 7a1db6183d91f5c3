package consultation

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
)

// ChainEvery is how often to call [Service.ChainEvidence].
const ChainEvery = time.Minute

// chainBatch is how many records one transaction adds to the chain.
const chainBatch = 1000

// Evidence proves that the client asked for an immediate start and waived the right of withdrawal (requirement R42). It
// is stored with the version and digest of the text, and can never be changed.
type Evidence struct {
	RequestID      string
	IdempotencyKey string // stored as SHA-256
	Address        string // of the partner's server
	UserAgent      string // of the partner's server

	// What the partner says the client was shown; empty if the request does not say.
	StatedVersion  string // one of [WaiverVersions]
	StatedLanguage string // FR or EN
}

func (e Evidence) row() (evidenceRow, error) {
	version := e.StatedVersion
	if version == "" {
		version = WaiverVersion
	}
	digest, err := waiverDigest(version)
	if err != nil {
		return evidenceRow{}, err
	}
	return evidenceRow{TextVersion: version, TextSHA256: digest, RequestID: e.RequestID,
		IdempotencyKeySHA256: id.DigestOf(e.IdempotencyKey), Address: e.Address, UserAgent: text.Printable(e.UserAgent),
		StatedVersion: e.StatedVersion, StatedLanguage: e.StatedLanguage}, nil
}

// Proof is the stored evidence of the client's request for an immediate start (requirement R42). Link is its place in
// the chain over the evidence of all consultations.
type Proof struct {
	ConsultationID       string
	TextVersion          string
	TextSHA256           id.Digest
	StatedVersion        string // by the partner; empty if not stated
	StatedLanguage       string // FR or EN; empty if not stated
	AcknowledgedAt       time.Time
	ApplicationID        string
	ClientID             string
	RequestID            string
	IdempotencyKeySHA256 id.Digest
	Address              string // of the partner's server
	UserAgent            string // of the partner's server
	Link                 *Link  // nil until [Service.ChainEvidence] has added it
}

// Link is the place of a record in the chain. Hash is the SHA-256 of Previous followed by the lines of [Proof.Lines],
// separated by line feeds.
type Link struct {
	Seq       int64      // from 1, without gaps
	Previous  *id.Digest // nil for the first
	Hash      id.Digest
	ChainedAt time.Time
}

// Lines returns the record as it is hashed.
func (p Proof) Lines() []string {
	return []string{p.ConsultationID, p.ApplicationID, p.ClientID, clock.Format(p.AcknowledgedAt), p.TextVersion,
		p.TextSHA256.String(), p.StatedVersion, p.StatedLanguage, p.RequestID, p.IdempotencyKeySHA256.String(),
		p.Address, p.UserAgent}
}

// ProofOf returns the proof for one of the client's consultations. Problem: NOT_FOUND.
func (s *Service) ProofOf(ctx context.Context, tx postgres.Tx, clientID, consultationID string) (Proof, error) {
	p, err := s.ProofFor(ctx, tx, consultationID)
	if err == nil && p.ClientID != clientID {
		return Proof{}, problem.ErrNotFound
	}
	return p, err
}

// ProofFor is [Service.ProofOf] for an operator, for any client.
func (s *Service) ProofFor(ctx context.Context, tx postgres.Tx, consultationID string) (Proof, error) {
	if !storable(consultationID) {
		return Proof{}, problem.ErrNotFound
	}
	return proofOf(ctx, tx, consultationID)
}

// ChainEvidence adds to the chain all evidence that is not in it yet. Concurrent calls take turns.
func (s *Service) ChainEvidence(ctx context.Context) error {
	for {
		var n int
		err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
			n, err = chainEvidence(ctx, tx, chainBatch)
			return err
		})
		if err != nil {
			return fmt.Errorf("chain the evidence: %w", err)
		}
		if n < chainBatch {
			return nil
		}
	}
}
