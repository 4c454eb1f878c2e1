package shell

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
	"pgregory.net/rapid"
)

// hardlines are commands that are never run, however they stand in a line.
var hardlines = []string{"rm -rf /", "sudo rm -fr /*", "mkfs.ext4 /dev/sda1", "dd if=x of=/dev/sda", ":(){ :|:& };:", "shutdown -h now", "kill -9 -1", "sh -c 'rm -rf /'", "echo / | xargs rm -rf", `r\m -r"f" "$HOME"`}

func parses(line string) bool {
	_, err := parse(line, syntax.LangBash)
	return err == nil
}

// Whatever stands before it, a command that is never run is found, or the line
// is at least said to be unclear; and no line makes the reader panic or contradict
// itself.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "ls", "echo 'a", "cat <<EOF", "x() { y; }", "a && b || c", "if x; then", "case x in", "$(", "`", "${X:-", "{a,b}{c,d}", "for i in 1 2; do", "X=1 Y=$X", "a\\", "[[ a", "((", "find . -exec", "env -S", "xargs -I", "sh -c", "git -c", "sed -i", "printf '%s' x | sh", "cd /; ", "rm() { :; }", "exit", "\x00\x01", "~root/x", "echo $'\\x", "declare -n x=y", "let 'x=1'", "<(a) >(b)", "a=(1 2)", "${a[@]}", "\u200b", "2>&1 >x", "coproc a", "select x in y; do", "tar --to-command=", "sudo -s"} {
		f.Add(seed, uint8(0))
	}
	f.Fuzz(func(t *testing.T, line string, which uint8) {
		check := func(line string) *Report {
			r := Read(line, here())
			if r.Reading && (r.Parts == nil || r.Unclear != "" || r.Forbidden != "" || r.Risky != "" || r.Opaque != "" || len(r.Writes) > 0 || len(r.Reads) == 0) {
				t.Errorf("%q only reads, and %+v", line, *r)
			}
			if r.Parts != nil && (r.Unclear != "" || r.Forbidden != "") || r.Prefix != nil && (len(r.Parts) != 1 || r.Risky != "") {
				t.Errorf("%q: %+v contradicts itself", line, *r)
			}
			if r.Prefix != nil && !begins(r.Parts[0], r.Prefix) {
				t.Errorf("%q: the prefix is %q", line, r.Prefix)
			}
			return r
		}
		check(line)
		hard := hardlines[int(which)%len(hardlines)]
		if !strings.HasSuffix(line, "\\") && parses(line) && parses(line+"\n"+hard) {
			if r := check(line + "\n" + hard); r.Forbidden == "" && r.Unclear == "" || r.Reading || r.Parts != nil {
				t.Errorf("%q before %q hides it: %+v", line, hard, *r)
			}
		}
		if r := check(hard + "\n" + line); r.Forbidden == "" {
			t.Errorf("%q behind %q hides it: %+v", line, hard, *r)
		}
		Scan(line)
		// It is found as well when it comes in pieces, behind whatever was read before.
		for _, before := range []Input{{}, Input{}.Add(line + "\n")} {
			k := len(hard) * int(which) / 256
			if r := before.Add(hard[:k]).Read(hard[k:]+"\n", here()); r.Forbidden == "" && (before == Input{} || r.Unclear == "" && !strings.HasSuffix(line, "\\") && parses(line) && parses(line+"\n"+hard)) {
				t.Errorf("%q in pieces behind %q is hidden: %+v", hard, line, *r)
			}
		}
	})
}

// What a prefix or an exact grant covers is never more than what it says,
// whatever is put before, behind or around the command.
func TestAGrantNeverWidens(t *testing.T) {
	commands := []string{"git status", "git status -s", "git log --oneline", "go test ./...", "go test -run X ./a", "make lint", "make lint -j4", "npm run build", "npm run build -- a.js", "ls a", "cat a b", "grep x y", "pytest -q", "cargo build --release", "git commit -m 'x y'", "eslint .", "docker ps -a", "cmake --build build/x -j4 --target all", "go test -v -run=X --count=1 ./a", "git commit -am x", "head -n5 a", "make test -skj4", "tail -n +5 a", "grep -rnA3 x .", "ls -la", "npm test -- a/b.test.ts", "cargo test foo --release", "tox -e py3", "pylint -E a.py", "mocha a.js --bail", "rake test --trace", "ctest -R x -j 4"}
	prefixOf := func(line string) []string { return Read(line, here()).Prefix }
	for _, c := range commands {
		p := prefixOf(c)
		if p == nil {
			t.Errorf("%q has no prefix", c)
		}
		if !Read(c, here()).Covered([][]string{p}, nil) {
			t.Errorf("%q is not covered by its own prefix %q", c, p)
		}
	}
	around := []string{"%s; x", "%s && x", "%s || x", "%s | x", "%s & x", "%s\nx", "x; %s", "x | %s", "%s > f", "%s >> f", "%s 2> f", "%s < f", "%s $(x)", "%s `x`", "%s <(x)", "%s $X", "%s \"$X\"", "%s ${X:-y}", "%s *", "%s ?", "%s {a,b}", "%s &",
		"X=1 %s", "sudo %s", "env %s", "nice %s", "timeout 5 %s", "xargs %s", "( %s )", "{ %s; }", "! %s", "time %s", "if %s; then x; fi", "while %s; do x; done", "f() { %s; }; f", "sh -c '%s'", "eval %s", "exec %s", "command %s", "./%s", "/tmp/%s", "%s <<EOF\nx\nEOF", "echo $(%s)"}
	for _, c := range commands {
		for _, a := range around {
			line := strings.Replace(a, "%s", c, 1)
			if Read(line, here()).Covered([][]string{prefixOf(c)}, [][]string{Read(c, here()).Parts[0]}) {
				t.Errorf("the grant of %q covers %q", c, line)
			}
		}
	}
	for line, grant := range map[string]string{
		"git push": "git status", "git": "git status", "git statusx": "git status", "gits tatus": "git status", "git -c a=b status": "git status", "git --exec-path=. status": "git status", "git -C / status": "git status", "git log --output=f": "git log", "git log --outpu=f": "git log", "git diff --ext-diff": "git diff", "git grep -Ox y": "git grep x", "git branch -D x": "git branch",
		"git remote add x y": "git remote", "git commit --amend": "git commit -m x", "git commit -nm x": "git commit -m x", "git tag -d x": "git tag", "go test -exec x .": "go test .", "go test -o x": "go test .", "go test -toolexec=x .": "go test .", "go run .": "go test .", "go vet -vettool=x": "go vet .", "go env -w A=b": "go env", "make lint deploy": "make lint", "make deploy": "make lint", "make -f x lint": "make lint", "make lint SHELL=x": "make lint", "make lint -C /": "make lint",
		"npm run deploy": "npm run build", "npm install x": "npm run build", "npm run build -- -w": "npm run build", "npm run build '$(x)'": "npm run build", "npm test '`x`'": "npm test",
		"make test '-sE$(shell x)'": "make test", "make test --ev='$(shell id)'": "make test", "make test -sfevil.mk": "make test", "make test -kCx": "make test", "make test -- -fx": "make test", "make test -j X=y": "make test", "cmake --build b -- '-E$(shell id)'": "cmake --build b", "cmake --build b -- SHELL=x": "cmake --build b", "cmake --build b --target SHELL=x": "cmake --build b", "cmake --build b --target=-fx": "cmake --build b", "cmake --build b -t -fx": "cmake --build b",
		"rake test '-esystem(1)'": "rake test", "rake test -qfx": "rake test", "pylint --init-hook='x'": "pylint", "pylint --init-h=x": "pylint", "pylint --load-plugins x": "pylint", "tox -x testenv.commands=x": "tox", "tox exec -- x": "tox", "tox -qc x": "tox", "go vet --vettool=./x": "go vet .", "go vet --vettool ./x": "go vet .", "go build --o x ./y": "go build ./y", "go build -o=x ./y": "go build ./y", "go test ./x -args -test.run=x": "go test .", "go test --exec=x .": "go test .", "mocha --require ./x.js": "mocha", "mocha -br ./x.js": "mocha", "eslint --rulesdir x .": "eslint .", "eslint -f ./x.js .": "eslint .", "prettier --plugin ./x.js .": "prettier .", "prettier --plugin=./x.js .": "prettier .", "ctest -S x": "ctest -R x", "ctest -VS x": "ctest -R x", "just test --shell x": "just test", "just test '$(x)'": "just test",
		"pytest -p x": "pytest", "pytest @x": "pytest", "pytest -qpx": "pytest", "pytest -ox=y": "pytest", "mypy --python-executable x .": "mypy .", "mypy @x": "mypy .", "jest --config '{}'": "jest", "jest --globalSetup=./x": "jest", "vitest --config x": "vitest", "golangci-lint run -c x": "golangci-lint run", "rubocop -r ./x": "rubocop", "phpunit --bootstrap x": "phpunit", "gofmt --cpuprofile=x .": "gofmt .", "rg --pre=x y": "rg y", "rg -ifx y": "rg y", "grep -rfx y": "grep y", "file -fx": "file x", "file -bfx": "file x", "tree -ox": "tree .", "tree -aox": "tree .", "git commit -Fx": "git commit -m x", "git log --outp=f": "git log", "git log -- -x": "git log", "dotnet build -p:X=y": "dotnet build", "dotnet build '-property:PreBuildEvent=x'": "dotnet build", "gradle test -Ix": "gradle test", "gradle test -qIx": "gradle test", "mvn test -Dx=y": "mvn test", "cargo test -- --nocapture": "cargo test", "bazel build x": "bazel build", "markdownlint -r ./x": "markdownlint .", "npm run build --prefix /": "npm run build", "rg --pre x y": "rg y", "cargo build --config x": "cargo build", "docker rm x": "docker ps", "docker -H x ps": "docker ps", "python3 x": "python3", "rm x": "rm", "sh x": "sh", "curl x": "curl", "find . -delete": "find .", "find .": "find .", "awk x": "awk x", "sudo ls": "sudo ls", "env ls": "env ls", "xargs ls": "xargs ls", "tee a": "tee b", "sed -n p a": "sed p",
	} {
		words := strings.Fields(grant)
		for n := range len(words) {
			if Read(line, here()).Covered([][]string{words[:n+1]}, nil) {
				t.Errorf("the prefix %q covers %q", words[:n+1], line)
			}
		}
		if Read(line, here()).Covered([][]string{{}}, nil) {
			t.Errorf("nothing covers %q", line)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.SampledFrom([]string{"git", "status", "log", "push", "go", "test", "run", "make", "lint", "npm", "-f", "-c", "--output=x", "a", "b", "./a", "../a", "ls", "cat", "x=y", "-exec", ";", "&&", "|", "||", "&", "\n", ">", "<", "(", ")", "$(", "`", "'", "\"", "\\", "$X", "*", "~", "#", "{", "}", "!", "sudo", "env", "sh", "-D", "branch", "commit", "-m", "2>&1", "<<<"})
		line := strings.Join(rapid.SliceOfN(word, 1, 8).Draw(rt, "line"), rapid.SampledFrom([]string{" ", "", "  "}).Draw(rt, "between"))
		grant := prefixOf(rapid.SampledFrom(commands).Draw(rt, "grant"))
		r := Read(line, here())
		if !r.Covered([][]string{grant}, nil) {
			return
		}
		if r.Risky != "" || r.Unclear != "" || r.Forbidden != "" || len(r.Parts) == 0 {
			rt.Fatalf("%q covers %q: %+v", grant, line, *r)
		}
		for _, p := range r.Parts {
			if !slices.Equal(p[:len(grant)], grant) {
				rt.Fatalf("%q covers %q, which has the part %q", grant, line, p)
			}
		}
	})
}

func TestACompoundIsCoveredIfEachPartIs(t *testing.T) {
	prefixes, exact := [][]string{{"git", "status"}, {"go", "test"}, {"tail"}}, [][]string{{"make", "all"}}
	for line, want := range map[string]bool{
		"git status && go test ./...": true, "git status; go test": true, "git status | tail -5": true, "git status\ngo test": true, "go test 2>&1 | tail": true, "make all && git status": true, "make all": true, "go test > /dev/null": true,
		"git status && git push": false, "git status && make": false, "make all x": false, "make  all && go test": true, "make 'all' && go test": true, "git status && rm x": false, "git status & go test": false, "(git status)": false, "git status > x; go test": false, "go test | tee x": false,
	} {
		if got := Read(line, here()).Covered(prefixes, exact); got != want {
			t.Errorf("%q: %v, want %v", line, got, want)
		}
	}
}

func TestWhatIsHugeOrDeepIsUnclearAndQuick(t *testing.T) {
	for name, line := range map[string]string{
		"words":  "true " + strings.Repeat("a ", 60_000),
		"lists":  strings.Repeat("true;", 25_000),
		"parens": strings.Repeat("(", 20_000) + "a" + strings.Repeat(")", 20_000),
		"substs": strings.Repeat("$(", 5_000) + "a" + strings.Repeat(")", 5_000),
		"braces": "echo " + strings.Repeat("{a,b}", 40), "range": "echo {1..100000000}",
		"loops":  strings.Repeat("while x; do ", 30) + "a" + strings.Repeat("; done", 30),
		"shells": strings.Repeat("sh -c ", 2_000) + "a",
		"sudo":   strings.Repeat("sudo ", 2_000) + "a",
		"vars":   strings.Repeat("X=$X$X;", 200) + "$X",
		"ssh":    "ssh " + strings.Repeat("a ", 2_000),
		"quotes": "python -c '" + strings.Repeat(`"a" `, 20_000) + "'",
	} {
		r := Read(line, here())
		if r.Reading || r.Prefix != nil && name != "words" {
			t.Errorf("%s: %q %q", name, r.Unclear, r.Prefix)
		}
		if r := Read(line+"\nrm -rf /", here()); r.Forbidden == "" && r.Unclear == "" {
			t.Errorf("%s hides what stands behind it", name)
		}
	}
}

func TestACommandOfAnotherShellIsReadByItsWords(t *testing.T) {
	for line, want := range map[string]string{
		`echo x > .env`: "never: false writes: .env", `echo x>>a.txt`: "never: false writes: a.txt", `copy a "b"`: "never: false writes: a, b, b/a", `dir`: "never: false writes: ", `rd /s /q C:\`: "never: true", `del /s /q %USERPROFILE%`: "never: true",
		`sh^utdown /s`: "never: true", `format c:`: "never: true", `cmd & shutdown /r`: "never: true",
	} {
		r := Scan(line)
		got := fmt.Sprintf("never: %v", r.Forbidden != "")
		if r.Forbidden == "" {
			got += " writes: " + strings.Join(r.Writes, ", ")
		}
		if got != want || r.Opaque == "" || r.Parts != nil || r.Reading {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}
