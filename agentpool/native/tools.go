package native

import "github.com/hermesd/hermesd/agentpool/native/tool"

// standardTools are the tools of a session with this configuration: what is not
// configured is not offered.
func (c Config) standardTools() *tool.Registry {
	all := tool.Standard().All()
	if c.Search != nil && c.Search.Check() == nil {
		all = append(all[:len(all):len(all)], tool.WebSearch{Engine: c.Search})
	}
	return tool.NewRegistry(all...)
}

// allows tells whether a call of this need would run unasked. It belongs to the
// running Prompt, as the grants do.
func (a *Agent) allows(n tool.Need) bool {
	granted, _ := a.granted(n) // what cannot be looked up is not granted
	return judge(a.currentMode(), n, granted) == allow
}
