package session

import "github.com/hermesd/hermesd/transport/acp"

// Who is what an origin tells about a person and his program, without the
// connection and its requests; zero if nothing is known.
func (o Origin) Who() Who {
	return Who{Client: o.Client, Token: o.Token, Remote: o.Remote, UID: o.UID, PID: o.PID}
}

// Who names somebody to people: in `_meta.hermes.origin`, in lists and logs.
type Who struct {
	Client string `json:"client,omitempty"` // name the editor gave itself
	Token  string `json:"token,omitempty"`  // over the network: the token's name
	Remote string `json:"remote,omitempty"` // over the network: the address
	UID    int    `json:"uid,omitempty"`
	PID    int    `json:"pid,omitempty"`
}

// meta is `_meta` with the origin, nil if nothing is known.
func (w Who) meta() []byte {
	if w == (Who{}) {
		return nil
	}
	return acp.HermesMeta(encode(map[string]any{"origin": w}))
}
