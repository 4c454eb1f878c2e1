package external

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/hermesd/hermesd/daemon/session"
	"github.com/hermesd/hermesd/transport/acp"
	"github.com/hermesd/hermesd/transport/jsonrpc"
)

// maxFile is the largest file that is read for a program.
const maxFile = 16 << 20

// readFile is fs/read_text_file: from the editor that prompted, which may have
// it unsaved, else from the disk, inside the session's folders.
func (l *life) readFile(r *jsonrpc.Request) jsonrpc.Handler {
	path, line, limit, err := readParams(r.Params)
	if err != nil {
		return refused(session.CodeParams, err.Error())
	}
	return func(ctx context.Context) (any, error) {
		text, err := l.a.host.ReadTextFile(ctx, path)
		if errors.Is(err, session.ErrNoEditor) {
			text, err = l.readDisk(path)
		}
		if err != nil {
			return nil, fileError(err)
		}
		var b acp.Builder
		return b.String("content", cutLines(text, line, limit)).JSON(), nil
	}
}

func readParams(params []byte) (path string, line, limit int, err error) {
	path, _ = acp.GetString(params, "path")
	if !filepath.IsAbs(path) {
		return "", 0, 0, fmt.Errorf("path: it must be absolute")
	}
	number := func(name string) (int, error) {
		v, ok := acp.Get(params, name)
		if !ok || string(v) == "null" {
			return 0, nil
		}
		n, err := strconv.Atoi(string(v))
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%s: it is no number of lines", name)
		}
		return n, nil
	}
	if line, err = number("line"); err != nil {
		return "", 0, 0, err
	}
	limit = -1
	if v, ok := acp.Get(params, "limit"); ok && string(v) != "null" {
		if limit, err = number("limit"); err != nil {
			return "", 0, 0, err
		}
	}
	return path, line, limit, nil
}

// cutLines is the text from a line on (1 is the first, 0 as well), of at most
// limit lines; -1 is no limit.
func cutLines(text string, line, limit int) string {
	for ; line > 1 && text != ""; line-- {
		_, rest, found := strings.Cut(text, "\n")
		if !found {
			return ""
		}
		text = rest
	}
	if limit < 0 {
		return text
	}
	end := 0
	for ; limit > 0 && end < len(text); limit-- {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text
		}
		end += i + 1
	}
	return text[:end]
}

func (l *life) readDisk(path string) (string, error) {
	real, err := l.inside(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	f, err := os.Open(real)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxFile:
		return "", fmt.Errorf("it is larger than %d MiB", maxFile>>20)
	case !utf8.Valid(data):
		return "", errors.New("it is no text in UTF-8")
	}
	return string(data), nil
}

// writeFile is fs/write_text_file, in the same way.
func (l *life) writeFile(r *jsonrpc.Request) jsonrpc.Handler {
	path, _ := acp.GetString(r.Params, "path")
	content, ok := acp.GetString(r.Params, "content")
	if !filepath.IsAbs(path) || !ok {
		return refused(session.CodeParams, "path must be absolute, and content a text")
	}
	return func(ctx context.Context) (any, error) {
		if err := l.a.host.Barrier(ctx); err != nil {
			return nil, err
		}
		err := l.a.host.WriteTextFile(ctx, path, content)
		if errors.Is(err, session.ErrNoEditor) {
			err = l.writeDisk(path, content)
		}
		if err != nil {
			return nil, fileError(err)
		}
		return acp.EmptyResult(), nil
	}
}

func (l *life) writeDisk(path, content string) error {
	real, err := l.inside(path)
	if err != nil {
		return err
	}
	mode := os.FileMode(0o666) // less the umask, as an editor makes it
	if info, err := os.Stat(real); err == nil {
		if !info.Mode().IsRegular() {
			return errors.New("it is no regular file")
		}
		mode = info.Mode().Perm()
	} else if err := os.MkdirAll(filepath.Dir(real), 0o777); err != nil {
		return err
	}
	return os.WriteFile(real, []byte(content), mode)
}

var errOutside = errors.New("it lies outside of the session's folders")

// inside resolves the links of a path and refuses what then lies outside of the
// session's folders. The file itself need not exist.
func (l *life) inside(path string) (string, error) {
	real, err := resolve(filepath.Clean(path))
	if err != nil {
		return "", err
	}
	for _, root := range append([]string{l.a.meta.Cwd}, l.a.meta.Dirs...) {
		root, err := filepath.EvalSymlinks(root)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, real); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
			return real, nil
		}
	}
	return "", errOutside
}

// resolve is filepath.EvalSymlinks of a path whose end need not exist. A link
// that leads nowhere is an error: where it will lead is not known.
func resolve(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return real, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", errors.New("it is a link that leads nowhere")
	}
	up := filepath.Dir(path)
	if up == path {
		return "", err
	}
	dir, err := resolve(up)
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

func fileError(err error) error {
	var sent *jsonrpc.Error
	if errors.As(err, &sent) {
		return sent
	}
	code := session.CodeInternal
	switch {
	case errors.Is(err, os.ErrNotExist):
		code = session.CodeNotFound
	case errors.Is(err, errOutside):
		code = session.CodeParams
	}
	return &jsonrpc.Error{Code: code, Message: err.Error()}
}
