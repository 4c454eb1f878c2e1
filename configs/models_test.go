package configs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEverythingAboutModelsIsRead(t *testing.T) {
	got, err := Parse("c.toml", []byte(`
[providers.lab]
base_url = "http://lab:8080/v1"
key_env = "LAB_KEY"
[providers.gate]
base_url = "https://gate.example"
format = "anthropic"
[agents.hermes]
provider = "lab"
model = "m"
reasoning_effort = "high"
context_window = 200000
max_output = 8000
max_turn_requests = 7
[agents.hermes.prices."lab/m"]
input = 3
output = 15.5
cache_read = 0.3
currency = "EUR"
[agents.hermes.prices.m]
input = 1
`))
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Providers = map[string]Provider{
		"lab":  {BaseURL: "http://lab:8080/v1", Format: "openai", KeyEnv: "LAB_KEY"},
		"gate": {BaseURL: "https://gate.example", Format: "anthropic"},
	}
	want.Agents["hermes"] = Agent{Type: Native, Provider: "lab", Model: "m", ReasoningEffort: "high", ContextWindow: 200_000, MaxOutput: 8000, MaxTurnRequests: 7,
		Prices: map[string]Price{"lab/m": {Input: 3, Output: 15.5, CacheRead: 0.3, Currency: "EUR"}, "m": {Input: 1}}, ApprovalMode: "ask"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

func TestMistakesAboutModels(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"provider": {"[agents.hermes]\nprovider = \"opneai\"\n[providers.lab]\nbase_url = \"http://x\"\n",
			`c.toml:2: agents.hermes.provider: "opneai" is not allowed; choose one of: auto, anthropic, openai, openrouter, nous, ollama, offline, lab`},
		"two addresses": {"[agents.hermes]\nprovider = \"lab\"\nbase_url = \"http://y\"\n[providers.lab]\nbase_url = \"http://x\"\n",
			"c.toml:3: agents.hermes.base_url: is in providers.lab; remove it here"},
		"no address":      {"[providers.lab]\nkey_env = \"A\"\n", `c.toml:1: providers.lab.base_url: is missing; say where the server is, as in base_url = "http://my-server:8080/v1"`},
		"no url":          {"[providers.lab]\nbase_url = \"lab:8080\"\n", `c.toml:2: providers.lab.base_url: is no address; write it as in base_url = "http://my-server:8080/v1", without a user`},
		"a user":          {"[providers.lab]\nbase_url = \"http://me:secret@lab\"\n", `c.toml:2: providers.lab.base_url: is no address; write it as in base_url = "http://my-server:8080/v1", without a user`},
		"format":          {"[providers.lab]\nbase_url = \"http://lab\"\nformat = \"gemini\"\n", `c.toml:3: providers.lab.format: "gemini" is not allowed; choose one of: openai, anthropic`},
		"a key":           {"[providers.lab]\nbase_url = \"http://lab\"\nkey_env = \"sk-secret\"\n", "c.toml:3: providers.lab.key_env: is no name of an environment variable; the key itself does not belong here: run hermesd login lab"},
		"a name in use":   {"[providers.openai]\nbase_url = \"http://lab\"\n", `c.toml:1: providers.openai: "openai" is a provider already; choose another name`},
		"a search engine": {"[providers.brave]\nbase_url = \"http://lab\"\n", `c.toml:1: providers.brave: "brave" is a provider already; choose another name`},
		"a slash":         {"[providers.\"a/b\"]\nbase_url = \"http://lab\"\n", `c.toml:1: providers."a/b": a name of a provider has letters, digits, "-", "_" and ".", begins with a letter or digit and has at most 64 characters`},
		"effort":          {"[agents.hermes]\nreasoning_effort = \"huge\"\n", `c.toml:2: agents.hermes.reasoning_effort: "huge" is not allowed; choose one of: none, minimal, low, medium, high, xhigh, max, or leave it out`},
		"window":          {"[agents.hermes]\ncontext_window = 200\n", "c.toml:2: agents.hermes.context_window: 200 is not allowed; choose 1000 to 100000000 tokens, or 0 for what is known of the model"},
		"output":          {"[agents.hermes]\nmax_output = -1\n", "c.toml:2: agents.hermes.max_output: -1 is not allowed; choose 16 to 10000000 tokens, or 0 for what is known of the model"},
		"requests":        {"[agents.hermes]\nmax_turn_requests = 0\n", "c.toml:2: agents.hermes.max_turn_requests: 0 is not allowed; choose 1 to 100000"},
		"price":           {"[agents.hermes.prices.\"a/b\"]\ninput = -1.0\n", `c.toml:2: agents.hermes.prices."a/b".input: -1 is not allowed; write what a million tokens cost`},
		"no number":       {"[agents.hermes.prices.b]\noutput = nan\n", "c.toml:2: agents.hermes.prices.b.output: NaN is not allowed; write what a million tokens cost"},
		"currency":        {"[agents.hermes.prices.b]\ncurrency = \"$\"\n", `c.toml:2: agents.hermes.prices.b.currency: "$" is not allowed; write a currency's code, as in "USD"`},
		"of a program":    {"[agents.a]\ncommand = [\"x\"]\nmax_output = 100\n", `c.toml:3: agents.a.max_output: is of native agents only; remove it or set type = "native"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse("c.toml", []byte(tc.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if d := cmp.Diff(tc.want, err.Error()); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Error("a secret is repeated")
			}
		})
	}
}
