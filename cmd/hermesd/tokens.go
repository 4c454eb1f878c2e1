package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/acpclient"
	"github.com/hermesd/hermesd/transport/identity"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/tokens"
)

// networkDir is where the daemon's certificate and tokens are.
func networkDir(p link.Places) string { return filepath.Join(p.State, "network") }

func tokensFile(p link.Places) *tokens.File {
	return tokens.Open(filepath.Join(networkDir(p), "tokens.json"))
}

func (a *app) tokensCommand() *cobra.Command {
	return group("tokens", "Say who may connect over the network", a.tokensCreate(), a.tokensList(), a.tokensRevoke())
}

// roleFlag is --role.
func roleFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "role", string(tokens.Control), "the `role`: control may do everything, observe sees everything and changes nothing")
}

func parseRole(s string) (tokens.Role, error) {
	r, err := tokens.ParseRole(s)
	if err != nil {
		return "", usagef("--role: %w", err)
	}
	return r, nil
}

func (a *app) tokensCreate() *cobra.Command {
	var asJSON bool
	var roleName string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token and print it, this once",
		Long: `Make a token and print it. It is kept nowhere: what the daemon keeps is a hash. On
the other machine put it into a file and call hermesd connect ADDRESS --token-file
FILE. It is easier, and as safe, to let hermesd pair do this.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			role, err := parseRole(roleName)
			if err != nil {
				return err
			}
			if err := tokens.CheckName(args[0]); err != nil {
				return usagef("%w", err)
			}
			places, err := a.places()
			if err != nil {
				return err
			}
			secret, t, err := tokensFile(places).Create(args[0], role)
			if errors.Is(err, tokens.ErrTaken) {
				return fmt.Errorf("%w; choose another name, or revoke it first: hermesd tokens revoke %s", err, args[0])
			}
			if err != nil {
				return err
			}
			if asJSON {
				l := listed(t)
				return a.printJSON(struct {
					listedToken
					Token string `json:"token"`
				}{l, secret})
			}
			_, err = fmt.Fprintln(a.out, secret)
			return err
		},
	}
	roleFlag(cmd, &roleName)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// listedToken is a token as `tokens list --json` prints it.
type listedToken struct {
	ID      string      `json:"id"`
	Name    string      `json:"name"`
	Role    tokens.Role `json:"role"`
	Created string      `json:"created"`
}

func listed(t tokens.Token) listedToken {
	return listedToken{t.ID, t.Name, t.Role, t.Created.UTC().Format(time.RFC3339)}
}

func (a *app) tokensList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the tokens there are, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			places, err := a.places()
			if err != nil {
				return err
			}
			all, err := tokensFile(places).List()
			if err != nil {
				return err
			}
			if asJSON {
				out := []listedToken{}
				for _, t := range all {
					out = append(out, listed(t))
				}
				return a.printJSON(out)
			}
			if len(all) == 0 {
				_, err := fmt.Fprintln(a.err, "there are no tokens; hermesd pair makes one for another machine")
				return err
			}
			var rows [][]string
			for _, t := range all {
				rows = append(rows, []string{t.Name, string(t.Role), ago(t.Created, time.Now()), t.ID})
			}
			return a.table("NAME ROLE CREATED ID", rows)
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

func (a *app) tokensRevoke() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke NAME…",
		Short: "Take tokens back and cut the connections that were made with them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			places, err := a.places()
			if err != nil {
				return err
			}
			file := tokensFile(places)
			all, err := file.List()
			if err != nil {
				return err
			}
			// All of them are found before the first is revoked.
			for _, arg := range args {
				if !slices.ContainsFunc(all, func(t tokens.Token) bool { return t.Name == arg || t.ID == arg }) {
					return notFoundf("there is no token %q, so nothing was revoked; see hermesd tokens list", arg)
				}
			}
			for _, arg := range args {
				t, err := file.Revoke(arg)
				if err != nil && !errors.Is(err, tokens.ErrUnknown) { // named twice
					return err
				}
				if err == nil {
					fmt.Fprintf(a.out, "%s is revoked\n", t.Name)
				}
			}
			return a.tellTokensChanged()
		},
	}
}

// tellTokensChanged has the running daemon cut the connections whose tokens are
// gone.
func (a *app) tellTokensChanged() error {
	var reply struct {
		Closed int `json:"closed"`
	}
	err := a.withDaemon(func(ctx context.Context, c *acpclient.Client) error {
		return c.Call(ctx, "_hermes/tokens/changed", map[string]any{}, &reply)
	})
	if errors.Is(err, link.ErrNoDaemon) {
		return nil // then nobody is connected
	}
	if err != nil {
		return fmt.Errorf("the running daemon could not be told: %w; connections made before live on until it is restarted: hermesd stop", err)
	}
	if reply.Closed > 0 {
		fmt.Fprintf(a.out, "%d connections were cut\n", reply.Closed)
	}
	return nil
}

func (a *app) pairCommand() *cobra.Command {
	var asJSON, show bool
	var roleName, name string
	var life time.Duration
	cmd := &cobra.Command{
		Use:   "pair",
		Short: "Print a code with which another machine gets a token, once",
		Long: `Print a code with which another machine gets a token of its own. The code is good
once and for a short time. It names the certificate of this machine's daemon too,
which is made the first time, so that the other machine knows whom it speaks with.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			role, err := parseRole(roleName)
			if err != nil {
				return err
			}
			if err := tokens.CheckName(name); err != nil {
				return usagef("--name: %w", err)
			}
			if life < time.Second || life > 24*time.Hour {
				return usagef("--expires: %v is not allowed; choose 1s to 24h", life)
			}
			places, err := a.places()
			if err != nil {
				return err
			}
			ctx, cancel := interruptible()
			defer cancel()
			certificate, err := identity.LoadOrMake(ctx, networkDir(places))
			if err != nil {
				return err
			}
			if show {
				if asJSON {
					return a.printJSON(map[string]any{"fingerprint": certificate.Fingerprint})
				}
				_, err := fmt.Fprintln(a.out, certificate.Fingerprint)
				return err
			}
			invitation, expires, err := tokensFile(places).Invite(name, role, life)
			if err != nil {
				return err
			}
			code := tokens.NewCode(invitation, certificate.Fingerprint.Hex()).String()
			addresses, err := a.networkAddresses(ctx, places)
			if err != nil {
				return err
			}
			if asJSON {
				return a.printJSON(map[string]any{
					"code": code, "name": name, "role": role, "expires": expires.Format(time.RFC3339),
					"fingerprint": certificate.Fingerprint, "addresses": list0(addresses),
				})
			}
			fmt.Fprintf(a.out, "code         %s\n", code)
			fmt.Fprintf(a.out, "good for     one machine, as %s (%s), until %s\n", name, role, expires.Local().Format(time.TimeOnly))
			fmt.Fprintf(a.out, "certificate  %s\n", certificate.Fingerprint)
			fmt.Fprintln(a.out, "\nOn the other machine:")
			for _, address := range addresses {
				fmt.Fprintf(a.out, "  hermesd connect %s --code %s\n", address, code)
			}
			if len(addresses) == 0 {
				fmt.Fprintf(a.out, "  hermesd connect tcp://HOST:PORT --code %s\n", code)
				fmt.Fprintf(a.err, "\nThe daemon does not listen on the network yet. Add to %s, and restart it:\n\n  [[listen]]\n  address = \"unix\"\n  [[listen]]\n  address = \"tcp://0.0.0.0:7777\"\n", places.Config)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "paired", "the `name` of the token that is made")
	cmd.Flags().DurationVar(&life, "expires", 10*time.Minute, "how `long` the code is good")
	cmd.Flags().BoolVar(&show, "show", false, "print the certificate's fingerprint and nothing else")
	roleFlag(cmd, &roleName)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// networkAddresses are those under which others reach the daemon: where it
// listens, else where it would.
func (a *app) networkAddresses(ctx context.Context, places link.Places) ([]string, error) {
	var all []string
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if c, err := a.dial(ctx, dialOptions{Client: acpclient.Options{Forget: true}}); err == nil {
		defer c.Close()
		s, err := status(ctx, c)
		if err != nil {
			return nil, err
		}
		all = s.Listen
	} else {
		config, err := configs.Load(places.Config)
		if err != nil {
			return nil, err
		}
		for _, l := range config.Listen {
			all = append(all, l.Address)
		}
	}
	var found []string
	for _, s := range all {
		address, err := transport.ParseAddress(s)
		if err != nil || address.Network == transport.Unix {
			continue
		}
		if ip := net.ParseIP(address.Host); address.Host == "" || ip != nil && ip.IsUnspecified() {
			if name, err := os.Hostname(); err == nil { // else as it is
				address.Host = name
			}
		}
		found = append(found, address.Network+"://"+net.JoinHostPort(address.Host, strconv.Itoa(int(address.Port))))
	}
	return found, nil
}
