package text

// MaxUserAgent is how much of a browser's User-Agent is kept, in bytes.
const MaxUserAgent = 300

// Printable keeps at most [MaxUserAgent] bytes of visible ASCII: a User-Agent is no more trustworthy than any other
// input.
func Printable(s string) string {
	b := make([]byte, 0, min(len(s), MaxUserAgent))
	for i := 0; i < len(s) && len(b) < MaxUserAgent; i++ {
		if s[i] >= ' ' && s[i] <= '~' {
			b = append(b, s[i])
		}
	}
	return string(b)
}
