package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term" // the terminal's echo: the Go project's own, no dependencies but x/sys

	"github.com/hermesd/hermesd/agentpool/native/llm"
	"github.com/hermesd/hermesd/agentpool/native/llm/catalog"
	"github.com/hermesd/hermesd/agentpool/native/llm/credentials"
	"github.com/hermesd/hermesd/configs"
)

// maxKey is how long a key can be.
const maxKey = 16 << 10

type loginFlags struct {
	keyFile, baseURL string
	noCheck          bool
}

func (a *app) loginCommand() *cobra.Command {
	var f loginFlags
	var list, asJSON bool
	cmd := &cobra.Command{
		Use:   "login [PROVIDER]",
		Short: "Keep the key of a provider of models",
		Long: `Keep the key of a provider of language models (anthropic, openai, openrouter,
nous, or a server that the configuration or --base-url names) or of a search engine
(brave, tavily). It is read from the terminal, which does not show it, or
from a file or the standard input, and kept in credentials.json beside the
configuration, readable by you alone.

Before it is kept the provider is asked whether it takes it. A daemon that runs uses
it from the next prompt on. Keys in the daemon's environment count before it.`,
		Example: `  hermesd login                          asks which provider, then for the key
  hermesd login openai --key-file key    for scripts; --key-file - is the standard input
  hermesd login --base-url http://my-server:8080/v1
  hermesd login --list                   which keys there are, without them`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if list {
				if len(args) > 0 || f != (loginFlags{}) {
					return usagef("--list takes nothing else")
				}
				return a.loginList(asJSON)
			}
			if asJSON {
				return usagef("--json is for --list")
			}
			return a.login(strings.Join(args, ""), f)
		},
	}
	cmd.Flags().StringVar(&f.keyFile, "key-file", "", "read the key from this `file`, - for the standard input")
	cmd.Flags().StringVar(&f.baseURL, "base-url", "", "the `address` of the provider's API, if it is not its own")
	cmd.Flags().BoolVar(&f.noCheck, "no-check", false, "do not ask the provider whether it takes the key")
	cmd.Flags().BoolVar(&list, "list", false, "list the keys there are, without showing them")
	jsonFlag(cmd, &asJSON)
	return cmd
}

// login gets a key, has it checked and keeps it.
func (a *app) login(provider string, f loginFlags) error {
	ctx, cancel := interruptible()
	defer cancel()
	config, keys, err := a.keys()
	if err != nil {
		return err
	}
	// Rather now than when the key has been typed.
	if _, err := keys.File.Load(); err != nil {
		return err
	}
	lines := bufio.NewReaderSize(io.LimitReader(a.in, maxKey), maxKey) // of the input, if it is no terminal
	servers := loginServers(config)
	cred, err := a.provider(ctx, config, loginChoices(servers), provider, f.baseURL, lines)
	if err != nil {
		return err
	}
	if cred.Key, err = a.key(ctx, cred.Provider, f.keyFile, lines); err != nil {
		return err
	}
	said := "is kept without asking"
	if !f.noCheck && !credentials.IsSearch(cred.Provider) {
		proved, err := (catalog.Config{Servers: servers}).Check(ctx, cred)
		var refused *llm.Error
		switch {
		case ctx.Err() != nil:
			return errors.New("interrupted; nothing is kept")
		case errors.As(err, &refused) && refused.AuthNeeded:
			return fmt.Errorf("%s does not take the key: %s; nothing is kept", cred.Provider, strings.TrimRight(refused.Message, "."))
		case err != nil:
			return fmt.Errorf("the key could not be checked: %w; --no-check keeps it all the same", err)
		case proved:
			said = "works, and is kept"
		default:
			said = "could not be checked, as the server answers without one too, and is kept"
		}
	}
	if err := keys.File.Save(cred); err != nil {
		return err
	}
	fmt.Fprintf(a.out, "The key of %s %s in %s.\n", cred.Provider, said, keys.File.Path)
	switch v := keys.Variable(cred.Provider); {
	case v != "" && os.Getenv(v) != "":
		fmt.Fprintf(a.err, "hermesd: %s is set here: a daemon that is started from this environment uses that one instead\n", v)
	case credentials.IsSearch(cred.Provider):
		fmt.Fprintln(a.err, "hermesd: a daemon that runs uses it when it has been started again")
	}
	return nil
}

// keys is where keys are looked for by a daemon that is started from here.
func (a *app) keys() (configs.Config, credentials.Source, error) {
	places, err := a.places()
	if err != nil {
		return configs.Config{}, credentials.Source{}, err
	}
	config, err := configs.Load(places.Config)
	if err != nil {
		return configs.Config{}, credentials.Source{}, err
	}
	return config, keySource(places, config, os.Getenv), nil
}

// loginServers are the servers that can be logged in to beside the providers that
// are known: those with a name in the configuration, and those of a base_url.
func loginServers(c configs.Config) []catalog.Server {
	all := modelServers(c)
	for _, name := range c.AgentNames() {
		a := c.Agents[name]
		s, ok := (catalog.Config{Provider: a.Provider, BaseURL: a.BaseURL}).Gateway()
		if ok && !slices.ContainsFunc(all, func(o catalog.Server) bool { return o.Name == s.Name }) {
			all = append(all, s)
		}
	}
	return all
}

// loginChoices are the names of those who can be logged in to.
func loginChoices(servers []catalog.Server) []string {
	// Ollama has no keys, but where somebody has put something before it.
	all := slices.DeleteFunc(catalog.Kinds(), func(name string) bool { return name == "ollama" })
	for _, s := range servers {
		all = append(all, s.Name)
	}
	return append(all, credentials.Searchers()...)
}

// provider says whom to log in to: the one that is named, or else the one that is
// chosen on the terminal.
func (a *app) provider(ctx context.Context, c configs.Config, choices []string, name, baseURL string, lines *bufio.Reader) (credentials.Credential, error) {
	if baseURL != "" {
		u, err := url.Parse(baseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return credentials.Credential{}, usagef("--base-url: write an address as in http://my-server:8080/v1")
		}
		if _, own := c.Providers[name]; own {
			return credentials.Credential{}, usagef("--base-url: where %s is, the configuration says", name)
		}
		if credentials.IsSearch(name) {
			return credentials.Credential{}, usagef("--base-url: for search engines that is web.search_url in the configuration")
		}
		if name == "" {
			name = u.Host
		}
		if name != u.Host && !slices.Contains(catalog.Kinds(), name) {
			return credentials.Credential{}, usagef("--base-url: a server is named by its host: %s", u.Host)
		}
		return credentials.Credential{Provider: name, BaseURL: baseURL}, nil
	}
	if name == "" {
		if !isTerminal(a.in) {
			return credentials.Credential{}, usagef("say to whom: hermesd login PROVIDER, one of: %s", strings.Join(choices, ", "))
		}
		for i, c := range choices {
			fmt.Fprintf(a.err, "%3d  %s\n", i+1, printable(c))
		}
		fmt.Fprintf(a.err, "Whose key? [1-%d, or a name] ", len(choices))
		line, err := typed(ctx, a.in.(*os.File), func() (string, error) { return lines.ReadString('\n') })
		if name = strings.TrimSpace(line); err != nil || name == "" {
			return credentials.Credential{}, errors.New("nothing was chosen")
		}
		if n, err := strconv.Atoi(name); err == nil && n >= 1 && n <= len(choices) {
			name = choices[n-1]
		}
		if !slices.Contains(choices, name) { // not repeated: it may be a key
			return credentials.Credential{}, notFoundf("that is none of them: %s; --base-url says where another one is", strings.Join(choices, ", "))
		}
	}
	if !slices.Contains(choices, name) && name != "ollama" {
		return credentials.Credential{}, notFoundf("there is no provider %q: choose one of %s, or say with --base-url where it is", name, strings.Join(choices, ", "))
	}
	return credentials.Credential{Provider: name}, nil
}

// key reads a key: from a file, from the terminal without showing it, or from the
// input's first line.
func (a *app) key(ctx context.Context, provider, file string, lines *bufio.Reader) (credentials.Secret, error) {
	var text string
	var err error
	in, isFile := a.in.(*os.File)
	switch {
	case file != "" && file != "-":
		var data []byte
		if data, err = readSmall(file); err == nil {
			text = string(data)
		}
	case file == "" && isFile && isTerminal(in):
		fmt.Fprintf(a.err, "Key of %s (it is not shown): ", printable(provider))
		text, err = typed(ctx, in, func() (string, error) {
			b, err := term.ReadPassword(int(in.Fd()))
			return string(b), err
		})
		fmt.Fprintln(a.err)
	default:
		text, err = lines.ReadString('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return credentials.Secret{}, fmt.Errorf("reading the key: %w", err)
	}
	if text = strings.TrimSpace(text); text == "" {
		return credentials.Secret{}, errors.New("there is no key; nothing is kept")
	}
	return credentials.NewSecret(text), nil
}

func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err == nil && len(data) > maxKey {
		err = fmt.Errorf("%s is too large for a key", path)
	}
	return data, err
}

// typed reads from a terminal until ctx ends, and leaves the terminal as it was
// in any case. What reads then ends with the process.
func typed(ctx context.Context, tty *os.File, read func() (string, error)) (string, error) {
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		return "", err
	}
	type result struct {
		text string
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := read()
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		_ = term.Restore(int(tty.Fd()), before)
		return "", errors.New("interrupted")
	}
}

// keptKey is one line of login --list.
type keptKey struct {
	Provider string `json:"id"`
	Source   string `json:"source"`
	BaseURL  string `json:"baseURL,omitempty"`
	Search   bool   `json:"search,omitempty"` // of a search engine
}

func (a *app) loginList(asJSON bool) error {
	_, keys, err := a.keys()
	if err != nil {
		return err
	}
	models, err := keys.All()
	if err != nil {
		return err
	}
	engines, err := keys.Search()
	if err != nil {
		return err
	}
	var all []keptKey
	for _, c := range append(models, engines...) {
		all = append(all, keptKey{c.Provider, c.Source, c.BaseURL, credentials.IsSearch(c.Provider)})
	}
	if asJSON {
		return a.printJSON(list0(all))
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.err, "there are no keys; hermesd login keeps one")
		return err
	}
	var rows [][]string
	for _, k := range all {
		rows = append(rows, []string{k.Provider, k.Source, k.BaseURL})
	}
	return a.table("PROVIDER SOURCE ADDRESS", rows)
}

func (a *app) logoutCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "logout PROVIDER",
		Short: "Forget the key of a provider of models",
		Long: `Forget the key that hermesd login has kept. A daemon that runs does not use it any
more from the next prompt on. Keys in the environment are not touched.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			_, keys, err := a.keys()
			if err != nil {
				return err
			}
			saved, err := keys.File.Load()
			if err != nil {
				return err
			}
			v := keys.Variable(args[0])
			set := v != "" && os.Getenv(v) != ""
			if _, ok := saved[args[0]]; !ok {
				if set {
					return notFoundf("no key of %s is kept: it is in the environment, as %s", args[0], v)
				}
				return notFoundf("no key of %q is kept; see hermesd login --list", args[0])
			}
			if err := keys.File.Delete(args[0]); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "The key of %s is forgotten.\n", printable(args[0]))
			if set {
				fmt.Fprintf(a.err, "hermesd: %s is set here: a daemon that is started from this environment goes on using it\n", v)
			}
			return nil
		},
	}
}
