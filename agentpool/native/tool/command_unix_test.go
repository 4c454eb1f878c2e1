//go:build unix

package tool

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestHardlineIsRefusedAndItsLookalikesAreNot(t *testing.T) {
	e := &Env{Cwd: t.TempDir()}
	for command, want := range map[string]bool{
		"rm -rf /":                                 true,
		"rm -fr //":                                true,
		"rm -r -f /*":                              true,
		"rm --recursive --force /etc/":             true,
		"rm -rf /tmp/..":                           true,
		"rm -rf ~":                                 true,
		"rm -rf $HOME/":                            true,
		`rm -rf "${HOME}"`:                         true,
		"sudo rm -rf /usr":                         true,
		"sudo -u root rm -rf /":                    true,
		"FOO=1 env -i nice -n 5 rm -rf /":          true,
		"timeout 5 rm -rf /":                       true,
		"cd x && rm -rf /":                         true,
		"echo a; rm -Rf /":                         true,
		"true || (rm -rf /)":                       true,
		"if true; then rm -rf /; fi":               true,
		"sh -c 'rm -rf /'":                         true,
		`bash -lc "echo; rm -rf /"`:                true,
		"eval rm -rf /":                            true,
		`echo "$(rm -rf /)"`:                       true,
		"echo `rm -rf /`":                          true,
		`r\m -rf /`:                                true,
		`'rm' -rf "/"`:                             true,
		"rm -rf \\\n/":                             true,
		"/bin/rm -rf /":                            true,
		"rm -r x --no-preserve-root":               true,
		"mkfs.ext4 /dev/sda1":                      true,
		"mkfs /dev/sda":                            true,
		"dd if=/dev/zero of=/dev/sda bs=1M":        true,
		"cat x > /dev/nvme0n1":                     true,
		"cat x >/dev/sda":                          true,
		"echo x | sudo tee /dev/sda":               true,
		":(){ :|:& };:":                            true,
		"bomb() { bomb | bomb & }; bomb":           true,
		"shutdown -h now":                          true,
		"sudo reboot":                              true,
		"systemctl poweroff":                       true,
		"init 0":                                   true,
		"kill -9 -1":                               true,
		"find / -delete":                           true,
		"rm -rf ./build":                           false,
		"rm -rf /tmp/x":                            false,
		"rm /":                                     false,
		"rm -rf .":                                 false,
		"echo shutdown":                            false,
		"grep -r 'rm -rf /' .":                     false,
		"echo 'rm -rf /'":                          false,
		"git commit -m \"reboot; rm -rf /\"":       false,
		"# rm -rf /\ntrue":                         false,
		"dd if=/dev/sda of=backup.img":             false,
		"ls > /dev/null 2>&1":                      false,
		"cp /dev/sda copy.img":                     false,
		"systemctl status poweroff.target":         false,
		"f() { echo a | cat & }; f":                false,
		"kill -1 123":                              false,
		"sudo echo reboot":                         false,
		"unclosed 'quote":                          false,
		"unclosed \"quote $( ${ `":                 false,
		"\\":                                       false,
		"go test ./... 2>&1 | tee out.txt && done": false,
	} {
		if got := e.need(e.command(command)).Forbidden; (got != "") != want {
			t.Errorf("%q: %q, want refused: %v", command, got, want)
		}
	}
}

func TestCommandsThatPlainlyChangeSensitiveFilesAreKnown(t *testing.T) {
	e := &Env{Cwd: t.TempDir(), Protected: []string{"/etc/hermesd"}}
	put(t, filepath.Join(e.Cwd, "credentials", "a.go"), "")
	put(t, filepath.Join(e.Cwd, "x", "workflows", "ci.yml"), "")
	put(t, filepath.Join(e.Cwd, "y", "README.md"), "")
	put(t, filepath.Join(e.Cwd, ".bashrc"), "")
	put(t, filepath.Join(e.Cwd, ".forgejo", "workflows", "ci.yml"), "")
	for command, want := range map[string]bool{
		"echo x >> .git/config":                  true,
		"echo x > .env":                          true,
		"echo x >.env.local":                     true,
		"cat a | tee -a .npmrc":                  true,
		"sed -i s/a/b/ .github/workflows/ci.yml": true,
		"cp a .bashrc":                           true,
		"rm -rf .git":                            true,
		"sh -c 'echo > .env'":                    true,
		"echo x > /etc/hermesd/config.toml":      true,
		"dd if=a of=id_rsa":                      true,
		"cp -t.git/hooks a":                      true, "cp --target=.git/hooks a": true, "cp --target-directory .git/hooks a": true, "ln -sft.git/hooks x": true, "mv -vt .git/hooks a": true, "sed '1w.bashrc' a": true, "sed 's/x/y/w.bashrc' a": true, "sed -n 'p;W .bashrc' a": true, "sed --i s/a/b/ .bashrc": true,
		"sort --outp=.bashrc a": true, "sort -ro.bashrc a": true, "sort --o .bashrc a": true, "curl -so.bashrc U": true, "curl --outpu .bashrc U": true, "wget -qO.bashrc U": true, "tar xf a -C .git/hooks": true, "tar -xC.git/hooks -f a": true, "git archive -o .bashrc HEAD": true, "git format-patch -o .git/hooks": true, "git log --outp=.bashrc": true,
		"mv x .github": true, "cp -r x .github": true, "cp -rT x .github": true, "mkdir .github; mv x/* .github": true, "rsync -a x/ .github/": true, "ln -s x .github": true, "mv .forgejo y": true, "mv y .github": false, "cp -r x z": false, "mv no .github": false,
		"cp a .forg*/workflows/ci.yml": true, "cp a .bas*": true, "mytool .bashr?": true, "mytool -o.bash[r]c": true, "rm y/*": false, "touch *c": false, "cp ?bashr* y": false, "chmod 600 *o/*": false, "cat .bas*": false, "cp a .zsh*": false,
		"xxd -r a .bashrc": true, "base64 -d a -o .bashrc": true, "sudo -D.git tee x": true, "sudo --chdir=.github tee workflows/x": true, "env -C .git tee x": true, "env --chd=.git tee x": true, "env -iC .github tee workflows/x": true, "sudo tee .bashrc": true, "mytool --to=.bashrc": true, "mytool -xvo.bashrc": true, "mytool a:.bashrc": true, "f() { echo x > $1; }; f .bashrc": true,
		"python3 -c \"open('.bashrc','w')\"": true, "python3 <<E\nopen('.git/hooks/x', 'w')\nE": true, "awk 'BEGIN{print > \".bashrc\"}'": true, "vim -c 'w! .bashrc' a": true, "perl -pe 1 .bashrc": true, "find . -name .bashrc -exec cp a {} +": true, "find . -fprint .bashrc": true, "xargs -a a cp .bashrc": true, "less -o.bashrc a": true, "tree -o .bashrc": true,
		"./cat .bashrc": true, "sh x.sh .bashrc": true, "mytool $X/.bashrc": true, "go test -coverprofile=.git/x": true, "mytool /etc/hosts": true, "mytool -o/etc/hermesd/x": true, "if x; then (mytool .bashrc); fi": true, "x=$(mytool .bashrc)": true, "find . -name .env -print": false, "git add .env": false, "git commit -m 'read .env'": false, "git diff .github/workflows/ci.yml": false,
		"sudo cat .env": false, "timeout 5 grep x .env": false, "test -f .env && echo there": false, "[ -f .env ]": false, "echo .env": false, "awk '{print}' .env": false, "xargs cat .env": false, "sed -n 1p .env": false, "sort .env": false, "shellcheck .ci/run": false, "./.ci/run": false, "sh -c 'cat .env'": false, "gcc -I/usr/include a.c": false, "node -e 'x().key; process.env.A'": false, "sed s/world/x/ a": false, "go test ./credentials": false, "curl -o a U": false,
		"cat .env":                     false,
		"git status":                   false,
		"sed s/a/b/ .env":              false,
		"echo x > out.txt 2>/dev/null": false,
		"echo '> .env'":                false,
	} {
		if got := e.need(e.command(command)).Sensitive; (got != "") != want {
			t.Errorf("%q: %q, want %v", command, got, want)
		}
	}
}

// A path that is attached to an option is seen as one.
func TestAnAttachedPathOutsideIsNotCovered(t *testing.T) {
	e := &Env{Cwd: tempDir(t)}
	prefixes := [][]string{{"file"}, {"grep"}, {"head"}, {"ls"}, {"git", "diff"}, {"rg"}}
	for command, want := range map[string]bool{
		"file -f/home/u/.ssh/id_rsa": false, "file -bf/home/u/x": false, "grep -f/home/u/x y": false, "grep -e/etc/passwd y": false, "grep -rf../x y": false, "ls -I/x": false, "ls -w5 --sort=/x": false, "rg -g../../x y": false, "git diff -S/x": false, "grep --include=/x y": false,
		"file a": true, "grep -e x/y a": true, "head -n5 a/b": true, "ls -la sub": true, "git diff --stat=80 a": true, "grep --include=*.go x": false, "rg -tgo x": true,
	} {
		c := e.command(command)
		if got := c.Covered(nil, prefixes); got != want || !want && c.Prefix != nil {
			t.Errorf("%q is covered: %v, want %v; its prefix is %q", command, got, want, c.Prefix)
		}
	}
}

// What is seen when a command is planned is looked at again when it runs.
func TestACommandThatLeadsElsewhereByNowIsNotRun(t *testing.T) {
	dir := tempDir(t)
	e := &Env{Cwd: dir}
	put(t, filepath.Join(dir, "a"), "inside")
	for _, command := range []string{"cat a", "echo x > a"} {
		a, err := Terminal{}.Plan(context.Background(), e, json.RawMessage(`{"command":"`+command+`"}`))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "kept")); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(filepath.Dir(dir), "out", ".env"), "secret")
		link(t, filepath.Join(filepath.Dir(dir), "out", ".env"), filepath.Join(dir, "a"))
		if r, err := a.Run(context.Background(), func([]Content) {}); err == nil || strings.Contains(r.Text, "secret") {
			t.Errorf("%s: %+v", command, r)
		}
		if err := os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, "a")); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "out", ".env")); err != nil || string(data) != "secret" {
		t.Error(string(data), err)
	}
}
