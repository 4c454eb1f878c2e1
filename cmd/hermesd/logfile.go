package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/DeRuina/timberjack" // rotation; the maintained fork of lumberjack, which leaves a goroutine behind
	"github.com/coreos/go-systemd/v22/journal"
	"github.com/rs/zerolog"

	"github.com/hermesd/hermesd/configs"
	"github.com/hermesd/hermesd/transport"
	"github.com/hermesd/hermesd/transport/link"
)

// newLog opens the daemon's log: JSON lines in a file that nobody else can read
// and that is rotated, or on stderr, where a person gets text. The returned
// function closes it; what is logged after that is lost.
func newLog(o serveOptions) (zerolog.Logger, func() error, error) {
	level, err := zerolog.ParseLevel(o.Config.Log.Level)
	if err != nil {
		return zerolog.Nop(), nil, fmt.Errorf("log.level: %w", err)
	}
	w, closeLog := o.Log, func() error { return nil }
	path := o.logFile()
	if path != "" {
		file, err := openLogFile(path, o.Config.Log)
		if err != nil {
			return zerolog.Nop(), nil, err
		}
		w, closeLog = file, file.Close
	} else if o.Pretty {
		w = zerolog.ConsoleWriter{Out: o.Log, TimeFormat: time.TimeOnly}
	}
	return zerolog.New(w).Level(level).With().Timestamp().Logger(), closeLog, nil
}

// logPath is the file the log goes to, "" for stderr. A service whose manager
// keeps no journal has one in any case: Windows throws stderr away, and launchd
// lets it grow for ever.
func logPath(l configs.Log, p link.Places, service bool) string {
	if l.File == "" && service && (runtime.GOOS == "windows" || runtime.GOOS == "darwin") {
		return filepath.Join(p.Log, logName)
	}
	return l.File
}

const (
	logName = "hermesd.log"
	// wordsName is where a daemon that nobody watches has its stderr: what it
	// prints as it panics. Whoever starts it keeps it small, see package link.
	wordsName = "stderr.log"
)

// logFile is logPath for this process: a daemon that an editor's shim started has
// a file too, for nobody makes stderr.log smaller while it runs.
func (o serveOptions) logFile() string {
	path := logPath(o.Config.Log, o.Places, o.Service)
	if path == "" && o.Places.Log != "" && isFile(o.Log, filepath.Join(o.Places.Log, wordsName)) {
		return filepath.Join(o.Places.Log, logName)
	}
	return path
}

// isFile says whether w writes to the file at path.
func isFile(w io.Writer, path string) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// Where a log is that is in no file.
const (
	logJournal = "journal"
	logStderr  = "stderr"
)

// logAt says where the log of this process is: a path, or one of the words above.
func (o serveOptions) logAt() string {
	if path := o.logFile(); path != "" {
		return path
	}
	// What systemd says in JOURNAL_STREAM goes on to children; the library
	// compares it with what stderr is.
	if is, err := journal.StderrIsJournalStream(); err == nil && is {
		return logJournal
	}
	return logStderr
}

func openLogFile(path string, l configs.Log) (io.WriteCloser, error) {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); err != nil {
		// A folder that is there may be in other use: its mode is left alone.
		if err := transport.Dir(dir); err != nil {
			return nil, fmt.Errorf("log.file: %w", err)
		}
	}
	// Opened once before the rotation does, so that what is wrong is said now, and
	// a file that was there already is closed to others too.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log.file: %w", err)
	}
	if info, serr := f.Stat(); serr == nil && info.Mode().IsRegular() {
		err = f.Chmod(0o600)
	} else {
		err = fmt.Errorf("%s is not a file", path)
	}
	f.Close()
	if err != nil && runtime.GOOS != "windows" {
		return nil, fmt.Errorf("log.file: %w", err)
	}
	return &timberjack.Logger{
		Filename:   path,
		MaxSize:    int((l.MaxSize + configs.MiB - 1) / configs.MiB),
		MaxBackups: l.Keep,
		FileMode:   0o600,
	}, nil
}
