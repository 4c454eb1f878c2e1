package configs

import (
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Provider is a server of language models that the user names.
type Provider struct {
	BaseURL string `toml:"base_url"` // as in "http://my-server:8080/v1"
	Format  string `toml:"format"`   // one of Formats; "" means openai
	KeyEnv  string `toml:"key_env"`  // the environment variable with its key; "" is none
}

// Price is what a million tokens of a model cost.
type Price struct {
	Input      float64 `toml:"input"`
	Output     float64 `toml:"output"`
	CacheRead  float64 `toml:"cache_read"`  // of input from the provider's cache; 0: as Input
	CacheWrite float64 `toml:"cache_write"` // of input put there; 0: as Input
	Currency   string  `toml:"currency"`    // ISO 4217; "" means USD
}

// Providers lists the values of an agent's provider that need no table of their
// own.
func Providers() []string {
	return []string{"auto", "anthropic", "openai", "openrouter", "nous", "ollama", "offline"}
}

// Formats lists the allowed values of a provider's format.
func Formats() []string { return []string{"openai", "anthropic"} }

// ReasoningEfforts lists the allowed values of an agent's reasoning_effort
// beside "", least first. A model that does not know one thinks as it likes.
func ReasoningEfforts() []string {
	return []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
}

// taken are names that credentials.json knows as something else.
func taken() []string { return append(Providers(), "brave", "tavily") }

// withDefaults fills in what the provider's table leaves out.
func (p Provider) withDefaults() Provider {
	if p.Format == "" {
		p.Format = "openai"
	}
	return p
}

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
)

// address tells whether a text is the address of a server.
func address(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") && u.User == nil
}

// invalidProviders reports every value of the tables providers.* that is not
// allowed.
func (c Config) invalidProviders(bad func(key toml.Key, format string, args ...any)) {
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p := c.Providers[name]
		key := func(k ...string) toml.Key { return append(toml.Key{"providers", name}, k...) }
		if !agentName.MatchString(name) {
			bad(key(), "a name of a provider has letters, digits, \"-\", \"_\" and \".\", begins with a letter or digit and has at most 64 characters")
		}
		if slices.Contains(taken(), name) {
			bad(key(), "%q is a provider already; choose another name", name)
		}
		switch {
		case p.BaseURL == "":
			bad(key("base_url"), "is missing; say where the server is, as in base_url = \"http://my-server:8080/v1\"")
		case !address(p.BaseURL):
			bad(key("base_url"), "is no address; write it as in base_url = \"http://my-server:8080/v1\", without a user")
		}
		if !slices.Contains(Formats(), p.Format) {
			bad(key("format"), "%q is not allowed; choose one of: %s", p.Format, strings.Join(Formats(), ", "))
		}
		if p.KeyEnv != "" && !variableName.MatchString(p.KeyEnv) {
			// Not repeated: it may be the key itself.
			bad(key("key_env"), "is no name of an environment variable; the key itself does not belong here: run hermesd login %s", name)
		}
	}
}

// invalidModels reports every value of a native agent's table that concerns
// models and is not allowed. own are the providers of the configuration.
func (a Agent) invalidModels(own map[string]Provider, bad func(key []string, format string, args ...any)) {
	known := append(Providers(), slices.Sorted(maps.Keys(own))...)
	if !slices.Contains(known, a.Provider) {
		bad([]string{"provider"}, "%q is not allowed; choose one of: %s", a.Provider, strings.Join(known, ", "))
	}
	_, isOwn := own[a.Provider]
	switch {
	case a.BaseURL == "":
	case isOwn:
		bad([]string{"base_url"}, "is in providers.%s; remove it here", a.Provider)
	case !strings.HasPrefix(a.BaseURL, "http://") && !strings.HasPrefix(a.BaseURL, "https://"):
		bad([]string{"base_url"}, "%q is not allowed; an address begins with http:// or https://", a.BaseURL)
	}
	if a.ReasoningEffort != "" && !slices.Contains(ReasoningEfforts(), a.ReasoningEffort) {
		bad([]string{"reasoning_effort"}, "%q is not allowed; choose one of: %s, or leave it out", a.ReasoningEffort, strings.Join(ReasoningEfforts(), ", "))
	}
	if w := a.ContextWindow; w != 0 && (w < 1000 || w > 100_000_000) {
		bad([]string{"context_window"}, "%d is not allowed; choose 1000 to 100000000 tokens, or 0 for what is known of the model", w)
	}
	if m := a.MaxOutput; m != 0 && (m < 16 || m > 10_000_000) {
		bad([]string{"max_output"}, "%d is not allowed; choose 16 to 10000000 tokens, or 0 for what is known of the model", m)
	}
	if n := a.MaxTurnRequests; n < 1 || n > 100_000 {
		bad([]string{"max_turn_requests"}, "%d is not allowed; choose 1 to 100000", n)
	}
	for _, model := range slices.Sorted(maps.Keys(a.Prices)) {
		p := a.Prices[model]
		for k, v := range map[string]float64{"input": p.Input, "output": p.Output, "cache_read": p.CacheRead, "cache_write": p.CacheWrite} {
			if !(v >= 0 && v <= 1e6) { // also not a number
				bad([]string{"prices", model, k}, "%v is not allowed; write what a million tokens cost", v)
			}
		}
		if p.Currency != "" && !currencyCode.MatchString(p.Currency) {
			bad([]string{"prices", model, "currency"}, "%q is not allowed; write a currency's code, as in \"USD\"", p.Currency)
		}
	}
}
