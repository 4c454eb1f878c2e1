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
		"cat .env":                               false,
		"git status":                             false,
		"sed s/a/b/ .env":                        false,
		"echo x > out.txt 2>/dev/null":           false,
		"echo '> .env'":                          false,
	} {
		if got := e.need(e.command(command)).Sensitive; (got != "") != want {
			t.Errorf("%q: %q, want %v", command, got, want)
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
