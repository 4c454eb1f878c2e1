package native

import (
	"slices"
	"sync"

	"github.com/hermesd/hermesd/agentpool/native/llm"
)

// Common holds what the sessions of a daemon say alike at the beginning of their
// requests: most have the same tools, many the same folder, and each would keep
// tens of kilobytes of its own. The zero value is ready; it is safe for
// concurrent use.
type Common struct {
	mu      sync.Mutex
	systems []string
	tools   [][]llm.ToolSpec
	last    struct { // that was packed
		prefix prefix
		packed []byte
	}
}

// maxCommon is how many different ones are remembered. Those that are forgotten
// live on in their sessions.
const maxCommon = 32

// share lets p use what another session has, where it is the same. What is
// shared is never written to.
func (c *Common) share(p *prefix) {
	if c == nil || p == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p.System = same(&c.systems, p.System, func(a, b string) bool { return a == b })
	p.Tools = same(&c.tools, p.Tools, func(a, b []llm.ToolSpec) bool { return slices.EqualFunc(a, b, sameSpec) })
}

// pack is prefix.pack, done once for those that are the same one after the other.
func (c *Common) pack(p *prefix) []byte {
	if c == nil || len(p.MCP) > 0 || len(p.Tools) == 0 {
		return p.pack()
	}
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	if l := last.prefix; l.System == p.System && len(l.Tools) == len(p.Tools) && &l.Tools[0] == &p.Tools[0] {
		return last.packed
	}
	packed := p.pack()
	c.mu.Lock()
	c.last.prefix, c.last.packed = *p, packed
	c.mu.Unlock()
	return packed
}

func sameSpec(a, b llm.ToolSpec) bool {
	return a.Name == b.Name && a.Description == b.Description && string(a.Schema) == string(b.Schema)
}

// same gives the one of all that equals v, which else becomes the newest of
// them.
func same[T any](all *[]T, v T, equal func(a, b T) bool) T {
	for i, known := range *all {
		if equal(known, v) {
			*all = append(slices.Delete(*all, i, i+1), known)
			return known
		}
	}
	if len(*all) >= maxCommon {
		*all = slices.Delete(*all, 0, 1)
	}
	*all = append(*all, v)
	return v
}
