package mcp

import (
	"net/url"
	"slices"
	"strings"
)

// redact takes out of a text what may be secret of the server: values of its
// environment and headers, and of its URL everything behind the host. It is for
// all that is shown or told of a failure.
func (s Server) redact(text string) string {
	var secrets []string
	add := func(v string) {
		// Short values are no secrets, and are found everywhere.
		if len(v) >= 6 {
			secrets = append(secrets, v)
		}
	}
	for _, p := range slices.Concat(s.Env, s.Headers) {
		add(p.Value)
		for _, word := range strings.Fields(p.Value) { // Bearer x
			add(word)
		}
	}
	if u, err := url.Parse(s.URL); s.URL != "" && err == nil {
		shown := u.Scheme + "://" + u.Host
		for _, full := range []string{s.URL, u.String(), u.Redacted()} {
			text = strings.ReplaceAll(text, full, shown)
		}
		add(u.RawQuery)
		for _, values := range u.Query() {
			for _, v := range values {
				add(v)
			}
		}
		if u.User != nil {
			password, _ := u.User.Password()
			add(password)
		}
		for _, part := range strings.Split(u.Path, "/") {
			if len(part) >= 16 { // a key in the path
				add(part)
			}
		}
	}
	// The longest first: one may be part of another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, v := range secrets {
		text = strings.ReplaceAll(text, v, "…")
	}
	return text
}
