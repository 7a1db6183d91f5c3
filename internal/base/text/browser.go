package text

import "strings"

// Browser recognises the common browsers and systems. The order matters, because each also names its ancestors.
func Browser(agent string) string {
	find := func(pairs ...[2]string) string {
		for _, p := range pairs {
			if strings.Contains(agent, p[0]) {
				return p[1]
			}
		}
		return ""
	}
	browser := find([2]string{"Edg", "Edge"}, [2]string{"OPR/", "Opera"},
		[2]string{"SamsungBrowser", "Samsung Internet"}, [2]string{"Firefox/", "Firefox"},
		[2]string{"FxiOS", "Firefox"}, [2]string{"CriOS", "Chrome"}, [2]string{"Chrome/", "Chrome"},
		[2]string{"Safari/", "Safari"})
	system := find([2]string{"iPhone", "iPhone"}, [2]string{"iPad", "iPad"}, [2]string{"Android", "Android"},
		[2]string{"Windows", "Windows"}, [2]string{"Macintosh", "Mac"}, [2]string{"CrOS", "ChromeOS"},
		[2]string{"Linux", "Linux"})
	return strings.Trim(browser+", "+system, ", ")
}
