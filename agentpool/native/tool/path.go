package tool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// place is a path as it was given and as the file system understands it.
type place struct {
	shown string // absolute, clean, links kept: what editors see
	real  string // all links resolved, also those of a file that does not exist yet
	label string // for titles: relative to the session's folder if it is in it
	out   bool   // real lies outside the session's folders
}

// resolve finds the place a path argument means. A relative path is taken from
// the session's folder, "~" is a name like any other.
func (e *Env) resolve(path string) (place, error) {
	if path == "" {
		return place{}, errors.New("the path is empty")
	}
	if strings.ContainsRune(path, 0) {
		return place{}, errors.New("the path contains a NUL byte")
	}
	p := place{shown: filepath.Clean(path)}
	if !filepath.IsAbs(p.shown) {
		p.shown = filepath.Join(e.Cwd, path)
	}
	var err error
	if p.real, err = realPath(p.shown); err != nil {
		return place{}, err
	}
	p.label = p.shown
	if rel, err := filepath.Rel(e.Cwd, p.shown); err == nil && filepath.IsLocal(rel) {
		p.label = rel
	}
	p.out = !e.inside(p.real)
	return p, nil
}

// inside tells whether a resolved path lies in one of the session's folders.
func (e *Env) inside(real string) bool {
	for _, root := range append([]string{e.Cwd}, e.Dirs...) {
		if root == "" {
			continue
		}
		root, err := realPath(root)
		if err == nil && within(real, root) {
			return true
		}
	}
	return false
}

// within tells whether path is dir or lies below it. Both are clean.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// realPath resolves every symbolic link of an absolute path. Unlike
// filepath.EvalSymlinks it also resolves a path whose end does not exist, so
// that a link which points at a file to come is seen for what it is.
func realPath(path string) (string, error) {
	const maxLinks = 255
	volume := filepath.VolumeName(path)
	rest := strings.Split(filepath.Clean(path)[len(volume):], string(filepath.Separator))
	root := volume + string(filepath.Separator)
	done := root
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		info, err := os.Lstat(next)
		if errors.Is(err, fs.ErrNotExist) {
			// Nothing below a missing name can be a link.
			done = next
			continue
		}
		if err != nil {
			return "", fmt.Errorf("resolving the path: %w", err)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("resolving the path: too many links in %s", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", fmt.Errorf("resolving the path: %w", err)
		}
		if filepath.IsAbs(target) {
			volume = filepath.VolumeName(target)
			done = volume + string(filepath.Separator)
			target = target[len(volume):]
		}
		rest = append(strings.Split(filepath.FromSlash(target), string(filepath.Separator)), rest...)
	}
	return done, nil
}

// sensitive returns why an edit of the place is asked about in every mode, ""
// if it is not. Both the path as given and as resolved count.
func (e *Env) sensitive(p place) string {
	if why := e.private(p); why != "" {
		return why
	}
	if !p.out {
		return "" // whoever opened a folder of the system works on it
	}
	for _, path := range []string{p.real, p.shown} {
		for _, dir := range systemDirs {
			if within(filepath.ToSlash(path), dir) {
				return path + " belongs to the system"
			}
		}
	}
	return ""
}

// systemDirs are folders in which a change concerns more than one user.
var systemDirs = []string{"/etc", "/boot", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/var/spool/cron", "/System", "/Library", "/private/etc", "/proc", "/sys"}

// private returns why also reading the place is asked about in every mode where
// it lies outside of the session's folders, "" if it is not.
func (e *Env) private(p place) string {
	if e.protects(p) {
		return p.real + " belongs to hermesd itself"
	}
	for _, path := range []string{p.real, p.shown} {
		if why := sensitiveName(path); why != "" {
			return path + " " + why
		}
	}
	return ""
}

// protects tells whether a place is one of Protected.
func (e *Env) protects(p place) bool {
	for _, dir := range e.Protected {
		if real, err := realPath(dir); err == nil {
			dir = real
		}
		if within(p.real, dir) || within(p.shown, dir) {
			return true
		}
	}
	return false
}

// sensitiveName judges a path by its names alone. Case does not count, as on
// many file systems.
func sensitiveName(path string) string {
	names := strings.Split(strings.ToLower(filepath.ToSlash(path)), "/")
	for i, name := range names {
		// Windows drops dots and spaces at the end of a name, and what follows
		// a colon in it is a stream of the same file.
		name = strings.TrimRight(name, ". ")
		if i > 0 {
			name, _, _ = strings.Cut(name, ":")
		}
		names[i] = name
		switch name {
		case ".git", "git~1", ".hg", ".svn", ".jj", ".bzr", ".husky", ".githooks", ".git-hooks", "githooks":
			return "belongs to version control, which runs programs"
		case ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".oci", ".bluemix", ".password-store", "keyrings", ".vault", ".terraform.d", ".gcloud":
			return "holds keys or logins"
		case "gcloud", "gh", "hub", "glab-cli", "op", "doctl", "heroku", "sops", "age", "rclone", "containers", "git", "pip":
			if i > 0 && names[i-1] == ".config" {
				return "holds keys or logins"
			}
		case "autostart", "systemd", "fish", "environment.d":
			if i > 0 && names[i-1] == ".config" {
				return "is run when you log in"
			}
		case "launchagents", "launchdaemons":
			return "is run when you log in"
		case ".circleci", ".buildkite", ".woodpecker", ".ci", ".semaphore", ".tekton", ".harness", ".gitlab-ci":
			return "is run by continuous integration"
		case ".claude", ".codex", ".gemini", ".cursor", ".continue", ".roo", ".kiro":
			return "leads agents"
		case "workflows", "actions":
			if i > 0 && (names[i-1] == ".github" || names[i-1] == ".gitea" || names[i-1] == ".forgejo") {
				return "is run by continuous integration"
			}
		case ".vscode", ".idea", ".zed", ".fleet", ".devcontainer", ".vim", ".nvim":
			return "is run by editors"
		}
	}
	base := names[len(names)-1]
	switch base {
	case ".npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".netrc", "_netrc", ".pgpass", ".git-credentials", "authorized_keys",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_ecdsa_sk", "id_ed25519_sk", ".htpasswd", ".dockercfg", "known_hosts", ".my.cnf", ".pg_service.conf", ".mongorc.js", ".boto", ".s3cfg", ".s3curl",
		".vault-token", "credentials.tfrc.json", ".terraformrc", "kubeconfig", ".kubeconfig", "auth.json", "credentials", "credentials.toml", "credentials.json", "credentials.yml", "credentials.yml.enc", "master.key", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml",
		"service-account.json", "serviceaccount.json", "application_default_credentials.json", "settings-security.xml", ".cargo-credentials", ".gem-credentials", ".curlrc", ".wgetrc", "hosts.yml", ".authinfo", ".authinfo.gpg", ".fetchmailrc", ".msmtprc", ".databrickscfg", ".snowsql":
		return "holds keys or logins"
	case ".gitconfig", ".gitmodules", ".gitattributes", ".hgrc", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml", "lefthook.yml", "lefthook.yaml", ".lefthook.yml", ".overcommit.yml", ".lintstagedrc", ".huskyrc":
		return "belongs to version control, which runs programs"
	case ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout",
		".kshrc", ".mkshrc", ".cshrc", ".tcshrc", ".login", ".logout", "config.fish", "profile.ps1", "microsoft.powershell_profile.ps1", ".inputrc", ".xprofile", ".xsession", ".xinitrc", ".pam_environment", ".direnvrc", ".rprofile", ".pythonrc", ".irbrc",
		".pryrc", ".gdbinit", ".lldbinit", ".vimrc", ".exrc", ".nvimrc", ".emacs", ".tmux.conf", ".screenrc", "sitecustomize.py", "usercustomize.py", "authorized_keys2", "crontab", ".crontab":
		return "is run by shells"
	case ".gitlab-ci.yml", ".gitlab-ci.yaml", ".travis.yml", ".drone.yml", ".woodpecker.yml", "jenkinsfile", "azure-pipelines.yml",
		"bitbucket-pipelines.yml", "appveyor.yml", ".appveyor.yml", ".cirrus.yml", ".build.yml", "buildspec.yml", "cloudbuild.yaml", "cloudbuild.yml", "wercker.yml", "codemagic.yaml", "bitrise.yml", ".gitpod.yml", "dangerfile", "azure-pipelines.yaml", "screwdriver.yaml", "netlify.toml", "vercel.json":
		return "is run by continuous integration"
	case ".mcp.json", "mcp.json":
		return "leads agents"
	}
	if strings.HasPrefix(base, ".env") {
		return "holds keys or logins"
	}
	for _, ext := range []string{".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".pkcs12", ".asc", ".gpg", ".age", ".ovpn", ".tfstate", ".tfvars"} {
		if strings.HasSuffix(base, ext) {
			return "holds keys or logins"
		}
	}
	return ""
}
