package configs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

// Tools bounds what the tools of the built-in agent may use.
type Tools struct {
	CommandTime    Duration `toml:"command_time"`     // of a command that asks for no time limit
	CommandTimeMax Duration `toml:"command_time_max"` // that a command can ask for
	CommandOutput  Size     `toml:"command_output"`   // end of a command's output that is kept
	Background     int      `toml:"background"`       // commands of one session in the background
}

// Web says what the built-in agent gets from the web.
type Web struct {
	// AllowPrivate are networks that are not of the public internet and may be
	// fetched from all the same: addresses, or prefixes as "10.0.0.0/8".
	AllowPrivate []string `toml:"allow_private"`
	Timeout      Duration `toml:"timeout"`    // of one page, with all redirections
	MaxSize      Size     `toml:"max_size"`   // of one page, unpacked
	Search       string   `toml:"search"`     // one of SearchEngines
	SearchURL    string   `toml:"search_url"` // of the search engine; "" is its own
}

// SearchEngines lists the allowed values of web.search. "auto" is the first
// that has a key, else SearXNG if there is an address of one.
func SearchEngines() []string { return []string{"auto", "none", "searxng", "brave", "tavily"} }

func defaultTools() Tools {
	return Tools{CommandTime: 2 * minute, CommandTimeMax: 60 * minute, CommandOutput: 32 * KiB, Background: 16}
}

func defaultWeb() Web {
	return Web{AllowPrivate: []string{}, Timeout: 30 * second, MaxSize: 5 * MiB, Search: "auto"}
}

// Networks is AllowPrivate, read. What is no network is an error that says what
// would be one.
func (w Web) Networks() ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, text := range w.AllowPrivate {
		if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
			a = a.Unmap()
			all = append(all, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("%q is not allowed; write an address or a network, as in \"127.0.0.1\", \"192.168.0.0/16\" or \"::1\"", text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// invalidTools reports every value of the two tables that is not allowed.
func (c Config) invalidTools(bad func(key toml.Key, format string, args ...any)) {
	tools := func(k string) toml.Key { return toml.Key{"tools", k} }
	if c.Tools.CommandTime < second {
		bad(tools("command_time"), "%s is not allowed; choose 1s or more", c.Tools.CommandTime)
	}
	if c.Tools.CommandTimeMax < c.Tools.CommandTime {
		bad(tools("command_time_max"), "%s is not allowed; choose %s (command_time) or more", c.Tools.CommandTimeMax, c.Tools.CommandTime)
	}
	if c.Tools.CommandOutput < 1*KiB || c.Tools.CommandOutput > 256*KiB {
		bad(tools("command_output"), "%s is not allowed; choose 1KiB to 256KiB", c.Tools.CommandOutput)
	}
	if c.Tools.Background < 1 || c.Tools.Background > 1000 {
		bad(tools("background"), "%d is not allowed; choose 1 to 1000", c.Tools.Background)
	}
	web := func(k string) toml.Key { return toml.Key{"web", k} }
	if _, err := c.Web.Networks(); err != nil {
		bad(web("allow_private"), "%v", err)
	}
	if c.Web.Timeout < second {
		bad(web("timeout"), "%s is not allowed; choose 1s or more", c.Web.Timeout)
	}
	if c.Web.MaxSize < 64*KiB || c.Web.MaxSize > 64*MiB {
		bad(web("max_size"), "%s is not allowed; choose 64KiB to 64MiB", c.Web.MaxSize)
	}
	if !slices.Contains(SearchEngines(), c.Web.Search) {
		bad(web("search"), "%q is not allowed; choose one of: %s", c.Web.Search, strings.Join(SearchEngines(), ", "))
	}
	if u := c.Web.SearchURL; u != "" && !strings.HasPrefix(u, "http://") && !strings.HasPrefix(u, "https://") {
		bad(web("search_url"), "%q is not allowed; an address begins with http:// or https://", u)
	}
	if c.Web.Search == "searxng" && c.Web.SearchURL == "" {
		bad(web("search"), "searxng needs search_url, the address of a server")
	}
}
