package webhook

import (
	"net/netip"
	"slices"

	"code.dny.dev/ssrf"
)

// guard decides to which addresses deliveries may go. Its Safe method checks every address when it is dialled, after
// name resolution, so that no DNS response can bypass it (decision H22).
type guard struct {
	*ssrf.Guardian
	ports    []uint16 // nil: any
	loopback bool
}

// azureWire is the only metadata address of a large provider outside the reserved special-purpose ranges.
var azureWire = netip.MustParsePrefix("168.63.129.16/32")

func newGuard(cfg Config) guard {
	g := guard{loopback: cfg.AllowLoopback}
	options := []ssrf.Option{ssrf.WithDeniedV4Prefixes(azureWire)}
	if cfg.Sandbox {
		options = append(options, ssrf.WithAnyPort())
	} else {
		g.ports = append([]uint16{443}, cfg.Ports...)
		options = append(options, ssrf.WithPorts(g.ports...))
	}
	if cfg.AllowLoopback {
		options = append(options,
			ssrf.WithAllowedV4Prefixes(netip.MustParsePrefix("127.0.0.0/8")),
			ssrf.WithAllowedV6Prefixes(netip.MustParsePrefix("::1/128")))
	}
	g.Guardian = ssrf.New(options...)
	return g
}

func (g guard) allowsPort(p uint16) bool {
	return p != 0 && (g.ports == nil || slices.Contains(g.ports, p))
}
