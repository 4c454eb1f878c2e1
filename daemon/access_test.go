package daemon

import (
	"bufio"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
	"github.com/hermesd/hermesd/transport/remote"
	"github.com/hermesd/hermesd/transport/tokens"
)

// What a client of another machine says of itself is not what agents here are
// started with; and what it has shown is kept in no hand of ours.
func TestAHelloOfTheNetworkIsNotBelieved(t *testing.T) {
	file := tokens.Open(filepath.Join(t.TempDir(), "n", "tokens.json"))
	secret, token, err := file.Create("laptop", tokens.Control)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := transport.ListenNetwork(t.Context(), transport.NetworkConfig{
		Address: transport.Address{Network: transport.PlainTCP, Host: "127.0.0.1"}, Tokens: file,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := remote.NewBook(t.TempDir()).Dial(t.Context(), ln.Address(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	said := link.Hello{Link: 1, ID: "chosen", Token: secret, Cwd: "/theirs", Agent: "script", Env: map[string]string{"PATH": "/theirs"}}
	if _, err := client.Write(said.Line()); err != nil {
		t.Fatal(err)
	}
	c, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	line, err := bufio.NewReader(c).ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	hello, _, err := link.ParseHello(line)
	if err != nil {
		t.Fatal(err)
	}
	d := &Daemon{cfg: Config{Log: zerolog.Nop(), Limits: DefaultLimits()}}
	if err := d.letIn(c, &hello, true); err != nil {
		t.Fatal(err)
	}
	if hello.Env != nil || hello.Cwd != "" || hello.Token != "" || hello.ID != connID(token.ID, "chosen") || hello.Agent != "script" {
		t.Errorf("left: %+v", hello)
	}
}
