package text

import "testing"

func TestBrowsersAreRecognised(t *testing.T) {
	t.Parallel()
	for agent, want := range map[string]string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0 Safari/537.36 Edg/140.0": "Edge, Windows",
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                "Firefox, Linux",
		"Mozilla/5.0 (Linux; Android 15) AppleWebKit/537.36 Chrome/140.0 Mobile Safari/537.36":                                  "Chrome, Android",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 15_0) Version/18.0 Safari/605.1.15":                                             "Safari, Mac",
		"curl/8": "", "": "",
	} {
		if got := Browser(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}
