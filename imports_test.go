package hermesd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/hermesd/hermesd"

// floors is the house, from the ground up. A package imports only packages of
// ours on lower floors, and a package below itself (agentpool/native imports
// agentpool/native/tool). A new package must be given its floor here.
var floors = map[string]int{
	"transport/link": -1, // all that the shim is made of

	"transport/jsonrpc": 0,
	"transport/manager": 0,
	"transport/private": 0,

	"transport":          1,
	"transport/acp":      1,
	"transport/identity": 1,
	"transport/tokens":   1,

	"agentpool/environ":       2,
	"daemon/session":          2,
	"transport/acpclient":     2,
	"transport/link/linktest": 2, // for tests
	"transport/remote":        2,
	"daemon/service":          2,

	"agentpool/external": 3,
	"agentpool/native":   3,
	"configs":            3,

	// What the built-in agent is made of stands below it, down to the models.
	"agentpool/native/llm/catalog":     4,
	"agentpool/native/llm/anthropic":   3,
	"agentpool/native/llm/openai":      3,
	"agentpool/native/mcp":             3,
	"agentpool/native/llm/retry":       2,
	"agentpool/native/llm/wire":        2,
	"agentpool/native/tool":            2,
	"agentpool/native/tool/web":        2,
	"agentpool/native/grants":          1,
	"agentpool/process":                1,
	"agentpool/native/shell":           1,
	"agentpool/native/llm":             1,
	"agentpool/native/llm/credentials": 1,
	"agentpool/native/llm/fakellm":     1, // for tests
	"agentpool/native/mcp/mcptest":     1, // for tests

	"agentpool":       4,
	"daemon":          4,
	"store":           4,
	"store/storetest": 4, // for tests

	"cmd/hermes-acp-shim": 5,
	"daemon/metrics":      5,
	"daemon/daemontest":   5, // for tests

	"cmd/hermesd":     6,
	"":                6, // this test
	"daemon/cases":    6, // tests only
	"scripts/bench":   6,
	"scripts/interop": 6, // tests only
}

type listed struct {
	ImportPath string
	Imports    []string
	Deps       []string
	Standard   bool
	Error      *struct{ Err string }
}

// list runs `go list` for one operating system.
func list(t *testing.T, goos string, args ...string) []listed {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-e", "-json=ImportPath,Imports,Deps,Standard,Error"}, args...)...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		all = append(all, p)
	}
}

var systems = []string{"linux", "darwin", "windows"}

// ours is a package's path inside the module.
func ours(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func TestImportsPointDownwards(t *testing.T) {
	for _, goos := range systems {
		for _, p := range list(t, goos, "./...") {
			name, _ := ours(p.ImportPath)
			floor, ok := floors[name]
			if !ok {
				t.Errorf("%s has no floor: say in imports_test.go where it stands", name)
				continue
			}
			for _, i := range p.Imports {
				imported, isOurs := ours(i)
				if !isOurs || strings.HasPrefix(imported, name+"/") {
					continue
				}
				if floors[imported] >= floor {
					t.Errorf("%s: %s (floor %d) imports %s (floor %d)", goos, name, floor, imported, floors[imported])
				}
			}
		}
	}
}

// What meets in the interfaces of daemon/session and in cmd/hermesd never
// imports each other, not even through something else.
func TestStoreAgentpoolAndDaemonDoNotKnowEachOther(t *testing.T) {
	const contract = "daemon/session"
	part := func(name string) string {
		first, _, _ := strings.Cut(name, "/")
		if name == contract || strings.HasPrefix(name, contract+"/") || (first != "store" && first != "agentpool" && first != "daemon") {
			return ""
		}
		return first
	}
	for _, goos := range systems {
		for _, p := range list(t, goos, "./...") {
			name, _ := ours(p.ImportPath)
			for _, d := range p.Deps {
				if dep, isOurs := ours(d); isOurs && part(name) != "" && part(dep) != "" && part(dep) != part(name) {
					t.Errorf("%s: %s depends on %s", goos, name, dep)
				}
			}
		}
	}
}

func TestOnlyTheStoreImportsBbolt(t *testing.T) {
	for _, goos := range systems {
		for _, p := range list(t, goos, "./...") {
			if name, _ := ours(p.ImportPath); slices.Contains(p.Imports, "go.etcd.io/bbolt") && name != "store" {
				t.Errorf("%s: %s imports bbolt", goos, name)
			}
		}
	}
}

// The shim stays small because it is the standard library and the package
// that speaks the link.
func TestShimDependsOnTheStandardLibraryAlone(t *testing.T) {
	allowed := []string{"cmd/hermes-acp-shim", "transport/link"}
	for _, goos := range systems {
		for _, p := range list(t, goos, "-deps", "./cmd/hermes-acp-shim") {
			if p.Standard {
				continue
			}
			name, isOurs := ours(p.ImportPath)
			if !isOurs {
				t.Errorf("%s: the shim depends on %s", goos, p.ImportPath)
			} else if !slices.Contains(allowed, name) && !strings.HasPrefix(name, "cmd/hermes-acp-shim/") {
				t.Errorf("%s: the shim depends on %s", goos, name)
			}
		}
	}
}

// A checkout must work on any machine: nothing in it names the folder it was
// written in or the host its packages were fetched from.
func TestNothingNamesThisMachine(t *testing.T) {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			if e.Name() == ".git" || e.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			return nil // something that was compiled here
		}
		if strings.Count(root, "/") > 1 && bytes.Contains(text, []byte(root)) {
			t.Errorf("%s names this folder, %s", name, root)
		}
		if e.Name() == "package-lock.json" && bytes.Contains(text, []byte(`"resolved"`)) {
			t.Errorf("%s names the host of a registry: use omit-lockfile-registry-resolved", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
