package ratelimit

import "net/netip"

// Network returns the key under which an address is counted: the address itself or, for IPv6, the /64 that one
// subscriber usually has.
func Network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil || a.Unmap().Is4() {
		return address
	}
	prefix, err := a.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}
