package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// methods gives every method that the daemon takes, as its source names them.
func methods(t *testing.T) []string {
	t.Helper()
	all := map[string]bool{}
	for _, file := range []string{"methods.go", "admin.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			s, err := strconv.Unquote(lit.Value)
			if err == nil && !strings.ContainsAny(s, " `.\"") && (strings.HasPrefix(s, "session/") || strings.HasPrefix(s, "_hermes/") || s == "initialize" || s == "authenticate") {
				all[s] = true
			}
			return true
		})
	}
	return slices.Sorted(maps.Keys(all))
}

// Whatever is added later has to be put on one side: what an observer may, or
// what a test has seen refused to him.
func TestEveryMethodIsLookingOrChanging(t *testing.T) {
	all := methods(t)
	if len(all) < 18 {
		t.Fatalf("the source names only %v", all)
	}
	for _, m := range all {
		if m == "session/cancel" {
			continue // a notification, see TestAnObserverSeesEverythingAndChangesNothing
		}
		if observable[m] == Changing[m] {
			t.Errorf("%s: observable %v, among those that are refused %v", m, observable[m], Changing[m])
		}
	}
	for m := range observable {
		if !slices.Contains(all, m) {
			t.Errorf("%s is observable and not there", m)
		}
	}
}

// Changing are the methods that the test of an observer has to try, and does.
var Changing = map[string]bool{
	"session/new": true, "session/prompt": true, "session/fork": true, "session/set_mode": true, "session/set_config_option": true, "session/delete": true,
	"_hermes/stop": true, "_hermes/permissions/answer": true, "_hermes/tokens/changed": true, "_hermes/doctor": true,
	"_hermes/backup": true, "_hermes/sessions/import": true, "_hermes/sessions/pin": true,
}
