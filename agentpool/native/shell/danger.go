package shell

import (
	"path"
	"slices"
	"strings"
)

// This file knows what is dangerous, which no grant of a prefix covers, and what
// commands plainly change.

// dangers notes what is dangerous about a simple command.
func (x *reader) dangers(name string, args []string) {
	has := func(all ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool { return slices.Contains(all, a) })
	}
	starts := func(all ...string) bool {
		return slices.ContainsFunc(args, func(a string) bool {
			return slices.ContainsFunc(all, func(p string) bool { return strings.HasPrefix(a, p) })
		})
	}
	lower := make([]string, len(args))
	for i, a := range args {
		lower[i] = strings.ToLower(a)
	}
	switch name {
	case "rm", "srm", "rimraf":
		if sure, may := recursive(args); sure || may || name != "rm" {
			x.risky("it removes folders with all that is in them")
		} else {
			x.risky("it removes files")
		}
	case "unlink", "rmdir", "shred", "truncate", "del", "erase", "rd":
		x.risky("it removes files")
	case "chmod":
		if slices.ContainsFunc(args, func(a string) bool {
			return a == "777" || a == "666" || a == "0777" || a == "a+w" || a == "o+w" || strings.Contains(a, "a+rw") || strings.Contains(a, "o+w") || strings.Contains(a, "u+s") || len(a) == 4 && a[0] >= '2' && a[0] <= '7' && strings.Trim(a, "01234567") == ""
		}) {
			x.risky("it lets others change files")
		} else {
			x.risky("it changes who may use files")
		}
	case "chown", "chgrp", "setfacl", "chattr":
		x.risky("it changes who may use files")
	case "sudo", "doas", "pkexec", "su", "run0", "runas":
		x.risky("it acts as another user")
	case "pkill", "killall", "kill", "taskkill", "stop-process", "skill", "xkill":
		x.risky("it ends other processes")
	case "systemctl", "service", "rc-service", "launchctl", "sc", "initctl":
		if len(args) > 0 && !has("status", "show", "cat", "list-units", "is-active", "is-enabled", "list") {
			x.risky("it starts or stops services")
		}
	case "crontab", "at", "batch", "schtasks":
		if !has("-l") {
			x.risky("it has something run later")
		}
	case "dd", "mount", "umount", "swapoff", "swapon", "losetup", "modprobe", "insmod", "rmmod", "sysctl", "iptables", "ip6tables", "nft", "ufw", "firewall-cmd", "setenforce", "visudo", "useradd", "userdel", "usermod", "groupadd", "passwd", "chsh", "chpasswd", "update-alternatives", "ldconfig", "reg", "regedit", "bcdedit", "vssadmin", "icacls", "takeown", "netsh", "cipher":
		x.risky("it changes the system")
	case "apt", "apt-get", "yum", "dnf", "pacman", "zypper", "brew", "snap", "apk", "dpkg", "rpm", "port", "choco", "winget", "flatpak", "emerge", "nix-env":
		if len(args) > 0 && !has("list", "search", "show", "info", "-l", "-L", "-qa", "-Q", "-Ss", "policy", "depends", "--version") {
			x.risky("it installs or removes software")
		}
	case "pip", "pip3", "npm", "pnpm", "yarn", "gem", "cargo", "go", "conda", "pipx", "composer", "bun", "uv", "poetry":
		switch {
		case has("uninstall", "remove", "rm", "unlink"):
			x.risky("it removes packages")
		case has("publish", "login", "adduser", "token", "owner", "yank", "unpublish", "deprecate", "access", "push"):
			x.risky("it publishes, or uses an account")
		case has("install", "i", "add", "ci", "update", "upgrade", "exec", "x", "dlx", "create", "init") && name != "go":
			x.risky("it fetches code and may run it")
		case (name == "go" || name == "cargo") && has("install", "get"):
			x.risky("it fetches code and may run it")
		case name == "go" && (len(args) > 1 && args[0] == "env" && has("-w", "-u") || has("-overlay", "-modfile") || starts("-overlay=", "-modfile=", "-exec", "-toolexec", "-vettool", "-o", "-C", "--exec", "-test.", "-cpuprofile", "-memprofile", "-blockprofile", "-mutexprofile", "-trace", "-coverprofile", "-outputdir", "-gcflags", "-ldflags", "-asmflags", "-gccgoflags", "-pkgdir", "-fuzz")):
			x.risky("it has go write files, or run other programs")
		case name == "cargo" && (starts("--config", "--target-dir", "--manifest-path", "--out-dir", "--artifact-dir") || has("-Z", "-C")), (name == "npm" || name == "pnpm" || name == "yarn") && starts("--prefix", "--script-shell", "--globalconfig", "--userconfig", "-C", "--dir", "--cwd"):
			x.risky("it works in another folder, or with other settings")
		}
	case "make", "gmake":
		if starts("-f", "--file", "--makefile", "-C", "--directory", "-I", "--eval", "-E") || slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "=") && !strings.HasPrefix(a, "-") }) {
			x.risky("it has make use another file, or other settings")
		}
	case "git", "hg":
		x.gitDangers(args)
	case "gh", "glab", "hub":
		if has("delete", "merge", "close", "secret", "auth", "api", "repo", "release", "workflow", "ssh-key", "gpg-key", "variable") {
			x.risky("it changes something at a host, or uses an account")
		}
	case "docker", "podman", "nerdctl", "docker-compose":
		if starts("-H", "--host", "--context", "-c", "--url", "--remote", "--connection") || has("stop", "kill", "rm", "rmi", "prune", "down", "run", "exec", "push", "restart", "start", "cp", "login", "import", "load", "volume", "system", "create", "build", "compose", "up") {
			x.risky("it starts, stops or removes containers, or speaks with another host")
		}
	case "kubectl", "helm", "terraform", "tofu", "pulumi", "ansible", "ansible-playbook", "aws", "gcloud", "az", "doctl", "heroku", "fly", "flyctl", "vercel", "netlify", "firebase", "wrangler":
		x.risky("it changes something elsewhere, with your logins")
	case "psql", "mysql", "mariadb", "sqlite3", "mongo", "mongosh", "redis-cli", "sqlcmd", "duckdb":
		x.risky("it works on a database")
	case "curl", "wget", "http", "https", "xh", "aria2c", "fetch", "iwr", "invoke-webrequest":
		x.risky("it speaks with other machines")
		for _, a := range args {
			if strings.Contains(a, "169.254.169.254") || strings.Contains(a, "metadata.google") || strings.Contains(a, "169.254.170.2") || strings.Contains(a, "100.100.100.200") || strings.Contains(a, "fd00:ec2") {
				x.unclear("it asks the cloud this machine is in for its keys")
			}
		}
	case "ssh", "scp", "sftp", "rsync", "nc", "ncat", "socat", "telnet", "ftp", "mosh", "rclone", "ssh-copy-id", "ssh-add", "ssh-keygen", "gpg", "gpg2", "pass", "security", "op", "vault", "secret-tool", "openssl", "keytool", "certutil":
		x.risky("it speaks with other machines, or works on keys")
	case "hermesd", "hermes-acp-shim":
		if len(args) > 0 && !has("status", "version", "list", "show", "--help") {
			x.risky("it acts on hermesd itself")
			x.unclear("it acts on hermesd itself, which runs it")
		}
	case "eval", "exec", "alias", "trap", ".", "source":
		x.risky("it runs a text")
	case "remove-item", "ri":
		if slices.ContainsFunc(lower, func(a string) bool { return strings.HasPrefix(a, "-r") || strings.HasPrefix(a, "-fo") }) {
			x.risky("it removes folders with all that is in them")
		}
	case "powershell", "pwsh":
		if slices.ContainsFunc(lower, func(a string) bool { return strings.HasPrefix(a, "-e") && strings.HasPrefix("-encodedcommand", a) }) {
			x.unclear("it runs a text that is encoded")
		}
	case "invoke-expression", "iex":
		x.unclear("it runs a text that is only known when it runs")
	}
}

func (x *reader) gitDangers(args []string) {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	if i < 0 {
		return
	}
	verb, rest := args[i], args[i+1:]
	has := func(all ...string) bool {
		return slices.ContainsFunc(rest, func(a string) bool { return slices.Contains(all, a) })
	}
	short := func(letters string) bool {
		return slices.ContainsFunc(rest, func(a string) bool {
			return len(a) > 1 && a[0] == '-' && a[1] != '-' && strings.ContainsAny(a, letters)
		})
	}
	long := func(options ...string) bool {
		return slices.ContainsFunc(rest, func(a string) bool {
			name, _, _ := strings.Cut(a, "=")
			return len(name) > 3 && slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix(o, name) })
		})
	}
	switch verb {
	case "push":
		if short("fd") || long("--force", "--force-with-lease", "--force-if-includes", "--mirror", "--delete", "--prune", "--all", "--tags") || slices.ContainsFunc(rest, func(a string) bool { return strings.HasPrefix(a, "+") || strings.HasPrefix(a, ":") }) {
			x.risky("it rewrites or removes what others have")
		} else {
			x.risky("it publishes commits")
		}
	case "reset":
		if long("--hard", "--merge", "--keep") {
			x.risky("it throws changes away")
		}
	case "clean", "filter-branch", "filter-repo", "update-ref", "reflog", "gc", "prune", "replace":
		x.risky("it throws work away")
	case "checkout", "restore", "switch", "rm", "rebase", "read-tree", "worktree":
		x.risky("it may throw changes away")
	case "branch":
		if short("dDmMcCfu") || long("--delete", "--move", "--copy", "--force", "--set-upstream-to", "--unset-upstream", "--edit-description") {
			x.risky("it removes or moves branches")
		}
	case "tag":
		if short("dfasmF") || long("--delete", "--force") {
			x.risky("it changes tags")
		}
	case "stash":
		if len(rest) > 0 && !has("list", "show") {
			x.risky("it may throw changes away")
		}
	case "remote":
		if has("add", "remove", "rm", "set-url", "rename", "prune", "update", "set-head", "set-branches") {
			x.risky("it changes where commits go")
		}
	case "clone", "fetch", "pull", "ls-remote", "submodule", "am", "apply", "merge", "cherry-pick", "revert", "bundle", "archive", "fast-import", "credential", "send-email", "svn", "p4", "lfs", "hook", "maintenance", "init", "mv", "commit-tree", "hash-object", "notes", "symbolic-ref", "format-patch", "daemon", "upload-pack", "receive-pack", "shell", "http-backend", "bisect":
		x.risky("it changes the repository, or fetches from elsewhere")
	case "commit":
		if long("--amend", "--no-verify", "--template", "--file") || short("nFtC") {
			x.risky("it changes a commit, or leaves checks out")
		}
	case "diff", "log", "show", "status", "grep", "blame":
		if long("--output", "--ext-diff", "--textconv", "--no-index", "--contents", "--open-files-in-pager") || verb == "grep" && short("Of") {
			x.risky("it reads or writes other files")
		}
	}
}

// writers are commands that change the files they name.
var writers = map[string]bool{
	"tee": true, "cp": true, "mv": true, "install": true, "ln": true, "rm": true, "truncate": true, "chmod": true, "chown": true, "chgrp": true, "shred": true, "rmdir": true, "mkdir": true, "sponge": true,
	"dd": true, "touch": true, "unlink": true, "rsync": true, "patch": true, "scp": true, "mkfifo": true, "mknod": true, "fallocate": true, "setfacl": true, "chattr": true, "rename": true, "split": true, "csplit": true, "srm": true,
	"unzip": true, "gunzip": true, "gzip": true, "bzip2": true, "xz": true, "zstd": true, "ed": true, "ex": true, "vim": true, "vi": true, "nvim": true, "nano": true, "emacs": true, "dos2unix": true, "unix2dos": true, "indent": true, "gofmt": true, "prettier": true, "black": true, "sort": true, "uniq": true, "copy": true, "move": true, "del": true, "xcopy": true, "robocopy": true, "ssh-keygen": true, "ditto": true, "link": true, "symlink": true, "shuf": true,
}

// copies notes that a file or folder comes to a place, or into the folder there.
func (x *reader) copies(from, to string) {
	for _, f := range x.at(from) {
		for _, t := range x.at(to) {
			if len(x.r.Copies) < 256 {
				x.r.Copies = append(x.r.Copies, [2]string{f, t}, [2]string{f, path.Join(t, path.Base(f))})
			}
		}
	}
}

// changes notes the files a command plainly changes.
func (x *reader) changes(name string, args []string) {
	var operands []string
	for i, a := range args {
		if name == "install" && i > 0 && (args[i-1] == "-m" || args[i-1] == "-o" || args[i-1] == "-g") {
			continue
		}
		if len(a) > 1 && a[0] == '-' {
			continue
		}
		operands = append(operands, a)
	}
	next := func(options ...string) { x.writes(eachValue(name, args, options...)...) }
	switch name {
	case "sort", "shuf":
		next("-o", "--output")
	case "uniq":
		if len(operands) > 1 {
			x.writes(operands[len(operands)-1])
		}
	case "gofmt", "goimports", "prettier", "black", "clang-format", "shfmt", "rustfmt", "isort", "eslint", "ruff":
		if slices.Contains(args, "-w") || slices.Contains(args, "--write") || slices.Contains(args, "-i") || slices.Contains(args, "--fix") || name == "black" || name == "rustfmt" || name == "isort" {
			x.writes(operands...)
		}
	case "curl":
		next("-o", "--output", "-D", "--dump-header", "-c", "--cookie-jar", "--trace", "--trace-ascii", "--output-dir", "--etag-save", "--stderr")
		for _, a := range args {
			if a == "-O" || a == "--remote-name" || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "O") {
				x.opaque("it writes files named by others")
			}
		}
	case "wget":
		next("-O", "--output-document", "-o", "--output-file", "-P", "--directory-prefix", "-a")
		x.opaque("it writes files named by others")
	case "tar", "bsdtar", "gtar", "unzip", "7z", "cpio", "pax", "bsdcpio", "unrar":
		next("-f", "--file")
		x.opaque("it unpacks or packs files whose names are not in the command")
		if len(operands) > 1 {
			x.writes(operands[1])
		}
	case "patch":
		x.opaque("it changes files that the patch names")
		x.writes(operands...)
	case "tree":
		next("-o")
	case "less":
		next("-o", "-O", "--log-file", "--LOG-FILE")
	case "git":
		next("--output")
	case "go":
		next("-o", "-coverprofile", "-cpuprofile", "-memprofile")
	case "gcc", "cc", "clang", "g++", "ld", "rustc", "tsc", "javac":
		next("-o", "--outFile", "--outDir", "-d")
	case "openssl":
		next("-out")
	case "cp", "mv", "install", "ln", "rsync", "scp", "copy", "move", "ditto", "link":
		ops := operands
		var targets []string
		if name != "rsync" && name != "scp" { // their -t is something else
			targets = eachValue(name, args, "-t", "--target-directory")
		}
		if len(targets) == 0 && len(ops) > 1 {
			targets = ops[len(ops)-1:]
			ops = ops[:len(ops)-1]
		}
		x.writes(operands...)
		x.writes(targets...)
		for _, target := range targets {
			for _, s := range ops {
				switch {
				case s == target:
					continue
				case strings.Contains(s, unknown) || hasPattern(s):
					x.opaque("it writes to files whose names are not known")
				default:
					x.writes(path.Join(target, path.Base(literal(s))))
				}
				x.copies(s, target)
			}
		}
		if slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "rRa") || a == "--recursive" || a == "--archive"
		}) {
			x.opaque("it writes whole folders")
		}
	case "dd":
		for _, a := range args {
			if v, ok := strings.CutPrefix(a, "of="); ok {
				x.writes(v)
			}
		}
	default:
		if writers[name] {
			x.writes(operands...)
		}
	}
	if name == "perl" || name == "ruby" {
		for _, a := range args {
			if strings.HasPrefix(a, "-i") || strings.HasPrefix(a, "-pi") || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.Contains(strings.TrimLeft(a, "-"), "i") {
				x.writes(operands...)
				break
			}
		}
	}
}
