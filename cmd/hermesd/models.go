package main

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport/link"
)

// keySource is where keys are looked for: in an environment, and in the file
// beside the configuration.
func keySource(p link.Places, c configs.Config, getenv func(string) string) credentials.Source {
	s := credentials.Source{
		Env:     getenv,
		File:    &credentials.File{Path: filepath.Join(filepath.Dir(p.Config), credentials.FileName)},
		Servers: map[string]string{},
	}
	for name, server := range c.Providers {
		s.Servers[name] = server.KeyEnv
	}
	return s
}

// modelServers says in the catalog's words what the file says of servers.
func modelServers(c configs.Config) []catalog.Server {
	var all []catalog.Server
	for _, name := range slices.Sorted(maps.Keys(c.Providers)) {
		p := c.Providers[name]
		all = append(all, catalog.Server{Name: name, BaseURL: p.BaseURL, Anthropic: p.Format == "anthropic"})
	}
	return all
}

// prices are what an agent's models cost.
func prices(a configs.Agent) map[string]llm.Price {
	all := make(map[string]llm.Price, len(a.Prices))
	for model, p := range a.Prices {
		all[model] = llm.Price{Input: p.Input, Output: p.Output, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Currency: p.Currency}
	}
	return all
}
