package link

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Places says where everything of one user's hermesd is.
type Places struct {
	Home   string // HERMESD_HOME, or "" without it
	Config string // the file config.toml
	State  string // folder: what must survive a reboot
	Log    string // folder
	Run    string // folder of the socket
	Socket string
	Lock   string // held by the daemon for as long as it lives
	Start  string // held by whoever starts a daemon until it is ready

	named bool // Socket was named by the user; Run may be a folder that others use as well
}

// Owner tells whose a folder is.
type Owner int

const (
	Absent  Owner = iota // there is nothing
	Ours                 // a folder of this user
	Foreign              // somebody else's, or no folder
)

// Locate finds the places of user uid on an operating system (a GOOS) from an
// environment; owner is asked about folders. It touches nothing itself.
//
// HERMESD_HOME puts everything under one folder. Without it Linux and the other
// Unixes follow the XDG base directories. A runtime folder that belongs to
// somebody else (XDG_RUNTIME_DIR survives su and sudo) counts as not set. Where
// root has installed hermesd as a service of the machine for this user, its
// socket is below /run/hermesd, also while nobody is logged in. macOS
// and Windows have their own folders and do not look at XDG_*: on macOS those
// are commonly set in a terminal but not in a program started from the dock,
// and the two must meet. Never is a place in a folder for temporary files.
//
// A relative path in a variable is refused with an error that names it.
func Locate(env func(string) string, goos string, uid int, owner func(dir string) Owner) (Places, error) {
	l := locator{env: env, goos: goos}
	var p Places
	switch home := l.path("HERMESD_HOME"); {
	case home != "":
		p = Places{
			Home:   home,
			Config: l.join(home, "config.toml"),
			State:  l.join(home, "state"),
			Log:    l.join(home, "log"),
			Run:    l.join(home, "run"),
		}
	case goos == "windows":
		base := l.join(l.need("LOCALAPPDATA"), "hermesd")
		p = Places{
			Config: l.join(base, "config.toml"),
			State:  l.join(base, "state"),
			Log:    l.join(base, "log"),
			Run:    l.join(base, "run"),
		}
	case goos == "darwin":
		library := l.join(l.need("HOME"), "Library")
		base := l.join(library, "Application Support", "hermesd")
		p = Places{
			Config: l.join(base, "config.toml"),
			State:  l.join(base, "state"),
			Log:    l.join(library, "Logs", "hermesd"),
			Run:    l.join(base, "run"),
		}
	default:
		p = Places{
			Config: l.join(l.base("XDG_CONFIG_HOME", ".config"), "hermesd", "config.toml"),
			State:  l.join(l.base("XDG_STATE_HOME", ".local", "state"), "hermesd"),
		}
		p.Log = l.join(p.State, "log")
		runtime := l.path("XDG_RUNTIME_DIR")
		user := fmt.Sprintf("/run/user/%d", uid)
		machine := fmt.Sprintf("/run/hermesd/by-uid/%d", uid)
		switch {
		case l.err != nil:
		case owner(machine) == Ours:
			p.Run = machine
		case runtime != "" && owner(runtime) != Foreign:
			p.Run = l.join(runtime, "hermesd")
		case owner(user) == Ours:
			p.Run = l.join(user, "hermesd")
		default:
			p.Run = l.join(p.State, "run")
		}
	}
	if l.err != nil {
		return Places{}, l.err
	}
	p.setSocket(l.join(p.Run, "hermesd.sock"))
	return p, nil
}

// Here returns the places of this process.
func Here() (Places, error) {
	return Locate(os.Getenv, runtime.GOOS, os.Getuid(), owner)
}

// WithSocket returns p with another socket, as --socket names it. The locks
// move beside it, so each socket has a daemon of its own. A relative path is
// refused: the daemon's working folder is not the caller's.
func (p Places) WithSocket(path string) (Places, error) {
	if !isAbs(runtime.GOOS, path) {
		return Places{}, fmt.Errorf("socket %q is a relative path; give the whole path", path)
	}
	if path == p.Socket {
		return p, nil
	}
	p.setSocket(path)
	p.Run = path[:strings.LastIndexAny(path, separators(runtime.GOOS))]
	if p.Run == "" || strings.HasSuffix(p.Run, ":") {
		p.Run += string(os.PathSeparator)
	}
	p.named = true
	return p, nil
}

// Named says whether the user named the socket, with --socket.
func (p Places) Named() bool { return p.named }

func (p *Places) setSocket(path string) {
	p.Socket = path
	stem := strings.TrimSuffix(path, ".sock")
	p.Lock = stem + ".lock"
	p.Start = stem + ".start"
}

// MakeRun makes sure that the socket's folder is there and that nobody else can
// put something in the socket's place.
//
// A folder of ours is made with mode 0700 and brought back to it. A folder that
// the user named (--socket) may be in other use, so its mode is left alone; it
// has to belong to the user and be writable by nobody else.
func (p Places) MakeRun() error {
	if p.named {
		if _, err := os.Stat(p.Run); err == nil {
			return checkDir(p.Run)
		}
	}
	return PrivateDir(p.Run)
}

// locator reads variables and keeps the first mistake.
type locator struct {
	env  func(string) string
	goos string
	err  error
}

// path returns a variable that is empty or a whole path.
func (l *locator) path(name string) string {
	v := l.env(name)
	if v == "" || isAbs(l.goos, v) {
		return v
	}
	if l.err == nil {
		l.err = fmt.Errorf("%s is the relative path %q; set it to a whole path", name, v)
	}
	return ""
}

// need returns a variable that must be there.
func (l *locator) need(name string) string {
	v := l.path(name)
	if v == "" && l.err == nil {
		l.err = fmt.Errorf("%s is not set, so there is no place for hermesd; set it, or set HERMESD_HOME to a folder", name)
	}
	return v
}

// base returns an XDG base directory or its default under the home folder.
func (l *locator) base(name string, fallback ...string) string {
	if v := l.path(name); v != "" || l.err != nil {
		return v
	}
	return l.join(append([]string{l.need("HOME")}, fallback...)...)
}

// join is filepath.Join for the operating system asked about.
func (l *locator) join(elem ...string) string {
	sep := "/"
	if l.goos == "windows" {
		sep = `\`
	}
	elem[0] = strings.TrimRight(elem[0], separators(l.goos))
	return strings.Join(elem, sep)
}

// isAbs is filepath.IsAbs for any operating system.
func isAbs(goos, path string) bool {
	if goos != "windows" {
		return strings.HasPrefix(path, "/")
	}
	if strings.HasPrefix(path, `\\`) {
		return true
	}
	return len(path) >= 3 && path[1] == ':' && (path[2] == '\\' || path[2] == '/')
}

func separators(goos string) string {
	if goos == "windows" {
		return `\/`
	}
	return "/"
}

// PrivateDir makes sure that path is a folder of this user's that nobody else
// can look into: it is made with mode 0700, parents too, or brought to it. A
// folder of somebody else is refused, and so is one that is shared on purpose
// (writable by everybody): taking it away from the others would break them.
//
// On Windows the folder is made and inherits the access list of its parent;
// below the user's profile that admits the user, administrators and the system.
func PrivateDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making the folder %s: %w", path, err)
	}
	return makePrivate(path)
}

var errForeign = errors.New("belongs to another user")
