package session

import "context"

// Logins is what Agents may also be: ones that know how a user logs in to an
// agent. An agent is named as in Meta.Agent; "" is the default one.
type Logins interface {
	// Login says which ways to log in there are now. It is asked each time an
	// editor initializes: it may read files, and asks no server.
	Login(ctx context.Context, agent string) Login
	// Authenticate is told that the user has chosen one of the ways. It returns
	// nil if the agent has what it needs now, an *Error with CodeAuthRequired and
	// what to do if it has not, and one with CodeParams for a way there is not.
	Authenticate(ctx context.Context, agent, method string) error
	// Logout has what was logged in with forgotten. An *Error says why there is
	// nothing that could be.
	Logout(ctx context.Context, agent string) error
}

// Login is what there is to log in to.
type Login struct {
	Methods []LoginMethod
	Logout  bool // there is something that Logout forgets
}

// LoginMethod is one way to log in. A terminal method is not chosen with
// Authenticate: the editor runs its own command in a terminal, asking it to log
// in.
type LoginMethod struct {
	ID, Name, Description string
	Terminal              bool
}
