// Package credentials answers: with which keys may hermesd speak to language
// models, and where do they come from? From the environment first, then from a
// file that only its owner can read.
//
// A key is a Secret: printing, logging or encoding it shows that there is one
// and nothing of it.
package credentials

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
)

const hidden = "(secret)"

// Secret is a text that shows itself to nobody but callers of Reveal. The zero
// Secret is empty.
type Secret struct{ reveal func() string } // a function: printers that look into structs find nothing

// NewSecret hides text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{func() string { return text }}
}

// Reveal returns the text. It goes into a request's header or into the file of
// credentials, and nowhere else.
func (s Secret) Reveal() string {
	if s.reveal == nil {
		return ""
	}
	return s.reveal()
}

// Empty tells whether there is nothing to hide.
func (s Secret) Empty() bool { return s.reveal == nil }

func (s Secret) String() string {
	if s.Empty() {
		return "(none)"
	}
	return hidden
}

// GoString implements fmt.GoStringer.
func (s Secret) GoString() string { return s.String() }

// Format implements fmt.Formatter: no verb shows more than String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText implements encoding.TextMarshaler, for JSON and TOML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue implements slog.LogValuer.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Redact takes the secret out of a text of others, as the error message of a
// server that repeats what it was sent.
func (s Secret) Redact(text string) string {
	if s.Empty() {
		return text
	}
	return strings.ReplaceAll(text, s.Reveal(), hidden)
}

// Credential is what opens one provider.
type Credential struct {
	Provider string // "anthropic", "openrouter" … or the host (with port) of a server
	Key      Secret
	Bearer   bool   // the key is an OAuth token, for Anthropic
	BaseURL  string // "" is the provider's own
	Source   string // for people: where it was found
	Environ  bool   // it is from the environment
}

// variable says what the environment can hold.
type variable struct {
	provider, key, baseURL string
	bearer                 bool
}

// variables are looked at in this order; the first provider that has a key is
// the one that provider = "auto" takes.
var variables = [...]variable{
	{provider: "anthropic", key: "ANTHROPIC_API_KEY", baseURL: "ANTHROPIC_BASE_URL"},
	{provider: "anthropic", key: "ANTHROPIC_AUTH_TOKEN", baseURL: "ANTHROPIC_BASE_URL", bearer: true},
	{provider: "openai", key: "OPENAI_API_KEY", baseURL: "OPENAI_BASE_URL"},
	{provider: "openrouter", key: "OPENROUTER_API_KEY"},
	{provider: "nous", key: "NOUS_API_KEY"},
}

// searchVariables are of search engines, in the order in which they are
// preferred.
var searchVariables = [...]variable{
	{provider: "brave", key: "BRAVE_API_KEY"},
	{provider: "tavily", key: "TAVILY_API_KEY"},
}

// Variable is the name of the environment variable that holds a provider's
// key, "" if there is none.
func Variable(provider string) string {
	for _, v := range append(variables[:], searchVariables[:]...) {
		if v.provider == provider {
			return v.key
		}
	}
	return ""
}

// Searchers are the names of the search engines that want a key.
func Searchers() []string {
	var names []string
	for _, v := range searchVariables {
		names = append(names, v.provider)
	}
	return names
}

// IsSearch tells whether a credential is of a search engine, which is no
// provider of models.
func IsSearch(provider string) bool {
	return slices.ContainsFunc(searchVariables[:], func(v variable) bool { return v.provider == provider })
}

// Strip returns an environment without the variables that hold keys, those of
// the source's own servers among them, and without hermesd's own: what commands
// of an agent may know.
func (s Source) Strip(environ []string) []string {
	kept := make([]string, 0, len(environ)) // never nil, which would mean this process's to some
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		secret := strings.HasPrefix(name, "HERMESD_") ||
			slices.ContainsFunc(variables[:], func(v variable) bool { return v.key == name }) ||
			slices.ContainsFunc(searchVariables[:], func(v variable) bool { return v.key == name })
		for _, own := range s.Servers {
			secret = secret || own == name
		}
		if !secret {
			kept = append(kept, kv)
		}
	}
	return kept
}

// Source is where credentials are looked for. The zero Source has none.
type Source struct {
	Env  func(string) string // nil: the environment is not looked at
	File *File               // nil: there is no file
	// Servers are the user's own, by the names he gave them, with the variable
	// that holds the key of each, "" for none.
	Servers map[string]string
}

// Variable is the name of the environment variable that holds the key of a
// provider or of one of the user's servers, "" if there is none.
func (s Source) Variable(provider string) string {
	return cmp.Or(s.Servers[provider], Variable(provider))
}

// All returns what there is, the environment's first and each provider once,
// in the order in which they are preferred. An error is of the file; what the
// environment has is returned with it.
func (s Source) All() ([]Credential, error) {
	var all []Credential
	has := func(provider string) bool {
		return slices.ContainsFunc(all, func(c Credential) bool { return c.Provider == provider })
	}
	if s.Env != nil {
		for _, v := range variables {
			if key := strings.TrimSpace(s.Env(v.key)); key != "" && !has(v.provider) {
				c := Credential{Provider: v.provider, Key: NewSecret(key), Bearer: v.bearer, Environ: true, Source: "environment variable " + v.key}
				if v.baseURL != "" {
					c.BaseURL = strings.TrimSpace(s.Env(v.baseURL))
				}
				all = append(all, c)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Servers)) {
			v := s.Servers[name]
			if v == "" {
				continue
			}
			if key := strings.TrimSpace(s.Env(v)); key != "" && !has(name) {
				all = append(all, Credential{Provider: name, Key: NewSecret(key), Environ: true, Source: "environment variable " + v})
			}
		}
	}
	if s.File == nil {
		return all, nil
	}
	saved, err := s.File.Load()
	order := func(c Credential) int {
		for i, v := range variables {
			if v.provider == c.Provider {
				return i
			}
		}
		return len(variables)
	}
	for _, c := range slices.SortedFunc(maps.Values(saved), func(a, b Credential) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a.Provider, b.Provider))
	}) {
		if !has(c.Provider) && !IsSearch(c.Provider) {
			all = append(all, c)
		}
	}
	return all, err
}

// Search returns the credentials of search engines, those that are preferred
// first, each once. Like All, it returns what the environment has also with an
// error of the file.
func (s Source) Search() ([]Credential, error) {
	var all []Credential
	var saved map[string]Credential
	var err error
	if s.File != nil {
		saved, err = s.File.Load()
	}
	for _, v := range searchVariables {
		if s.Env != nil {
			if key := strings.TrimSpace(s.Env(v.key)); key != "" {
				all = append(all, Credential{Provider: v.provider, Key: NewSecret(key), Environ: true, Source: "environment variable " + v.key})
				continue
			}
		}
		if c, ok := saved[v.provider]; ok && !c.Key.Empty() {
			all = append(all, c)
		}
	}
	return all, err
}

// Find returns the credential of one provider; ok is false if there is none.
func (s Source) Find(provider string) (c Credential, ok bool, err error) {
	all, err := s.All()
	for _, c := range all {
		if c.Provider == provider {
			return c, true, nil
		}
	}
	return Credential{}, false, err
}
