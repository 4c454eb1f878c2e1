package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// What our messages tell people to run: `hermesd WORD`, or "see", "run", "with:"
// and the like before it.
var advised = []*regexp.Regexp{
	regexp.MustCompile("`hermesd ([a-z]+)(?: ([a-z]+))?"),
	regexp.MustCompile(`(?:[Ss]ee|[Rr]un|with|use|start):? hermesd ([a-z]+)(?: ([a-z]+))?`),
}

func TestEveryCommandThatAMessageNamesExists(t *testing.T) {
	root := newApp(&bytes.Buffer{}, io.Discard, io.Discard).root()
	sub := func(c *cobra.Command, name string) *cobra.Command {
		i := slices.IndexFunc(c.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			return nil
		}
		return c.Commands()[i]
	}
	checked := 0
	check := func(where token.Position, text string) {
		for _, rule := range advised {
			for _, m := range rule.FindAllStringSubmatch(text, -1) {
				checked++
				cmd := sub(root, m[1])
				if cmd == nil || m[2] != "" && cmd.HasSubCommands() && sub(cmd, m[2]) == nil {
					t.Errorf("%s: %q: there is no such command", where, m[0])
				}
			}
		}
	}
	err := filepath.WalkDir("../..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "node_modules" || e.Name() == ".git"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					check(set.Position(lit.Pos()), text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 10 {
		t.Errorf("%d commands were found: the rule finds nothing", checked)
	}
}
