//go:build unix

package shell

import (
	"os/exec"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
)

// Words come to what the system's shell makes of them. Only printf runs, which
// is the shell's own.
func TestWordsComeToWhatTheShellMakesOfThem(t *testing.T) {
	const setup = `X='a  b' Y= Z='*q' S='\m' T="\m" U=\m; `
	pieces := []string{"a", "b", `\a`, `\ `, `\\`, `\'`, `\"`, `'c d'`, `'\e'`, `"f g"`, `"\h"`, `"\\"`, `"\""`, `"\$X"`, `$X`, `"$X"`, `${X}`, `$Y`, `"$Y"`, `''`, `""`, `$N`, `"$N"`, `${N:-i j}`, `"${N:-i j}"`, `${X:-k}`, `${Y:-l}`, `${Y-m}`, `${X:+n o}`, `$Z`, `"$Z"`, `$S`, `$T`, `$U`,
		`$(echo p q)`, `"$(echo p  q)"`, "`echo r`", `$IFS`, `"$IFS"`, " ", " ", `*q`, `?zz`, "#", "=", "-", "/", "\\\n", "é"}
	dir := t.TempDir() // in which no pattern matches
	rapid.Check(t, func(rt *rapid.T) {
		words := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 7).Draw(rt, "words"), "")
		line := setup + "printf '<%s>' w " + words
		cmd := exec.Command("/bin/sh", "-c", line)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + dir}
		out, err := cmd.Output()
		if err != nil {
			rt.Skip(err)
		}
		x := newReader(World{Cwd: dir, Getenv: func(string) (string, bool) { return "", false }})
		f, err := syntax.NewParser().Parse(strings.NewReader(line), "")
		if err != nil {
			rt.Skip(err) // the reader says that it is unclear
		}
		x.stmts(f.Stmts[:1])
		ways := x.fields(f.Stmts[1].Cmd.(*syntax.CallExpr).Args)
		for _, w := range ways {
			got := ""
			for _, f := range w[2:] {
				got += "<" + literal(f) + ">"
			}
			if got == string(out) || strings.Contains(got, unknown) {
				return
			}
		}
		rt.Fatalf("%s\ncomes to %s, want %s", line, ways, out)
	})
}
