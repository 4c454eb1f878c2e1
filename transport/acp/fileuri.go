package acp

import (
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"
)

// IsAbs says whether p is an absolute path on an operating system (a GOOS).
// On Windows that is a path with a drive and a root, or a UNC path.
func IsAbs(goos, p string) bool {
	if goos != "windows" {
		return strings.HasPrefix(p, "/")
	}
	if hasDrive(p) {
		return len(p) > 2 && isSlash(p[2])
	}
	// \\server\share, \\?\C:\p
	return len(p) > 2 && isSlash(p[0]) && isSlash(p[1]) && !isSlash(p[2])
}

// SamePath says whether two absolute paths are written differently for one
// place, without looking at the disk: a trailing or doubled separator, `.` and
// `..`, on Windows also the case of letters, the kind of slash and the `\\?\`
// prefix.
func SamePath(goos, a, b string) bool { return PathKey(goos, a) == PathKey(goos, b) }

// PathKey is equal for two paths exactly when SamePath holds. It is for
// comparing, not for showing or opening.
func PathKey(goos, p string) string {
	if goos != "windows" {
		return path.Clean(p)
	}
	p = strings.ToLower(strings.ReplaceAll(p, `\`, "/"))
	if rest, ok := strings.CutPrefix(p, "//?/unc/"); ok {
		p = "//" + rest
	} else if rest, ok := strings.CutPrefix(p, "//?/"); ok {
		p = rest
	}
	if rest, ok := strings.CutPrefix(p, "//"); ok {
		return "/" + path.Clean("/"+rest)
	}
	if hasDrive(p) {
		return p[:2] + path.Clean("/"+p[2:])
	}
	return path.Clean(p)
}

// FileRef is a place in a file, as an editor names it.
type FileRef struct {
	Path     string
	From, To int // lines, counted from 1, both included; 0 if none was named
}

// ErrNotFile says that a URI names no file: another scheme.
var ErrNotFile = errors.New("not a file URI")

// ParseFileURI reads a `file:` URI, or a plain absolute path, as an operating
// system (a GOOS) understands it. The fragments editors write for lines (#L3,
// #L1-L3, #L4:25) are understood, other fragments and queries ignored. A URI of
// another scheme is ErrNotFile.
func ParseFileURI(goos, uri string) (FileRef, error) {
	if IsAbs(goos, uri) {
		return FileRef{Path: uri}, checkPathText(uri)
	}
	if len(uri) < 5 || !strings.EqualFold(uri[:5], "file:") {
		return FileRef{}, fmt.Errorf("reading %s: %w", shownText(uri), ErrNotFile)
	}
	rest, fragment, _ := strings.Cut(uri[5:], "#")
	rest, _, _ = strings.Cut(rest, "?")
	host := ""
	if after, ok := strings.CutPrefix(rest, "//"); ok {
		slash := strings.IndexByte(after, '/')
		if slash < 0 {
			return FileRef{}, fmt.Errorf("reading %s: the URI has no path", shownText(uri))
		}
		host, rest = after[:slash], after[slash:]
	}
	p := percentDecode(rest)
	if strings.EqualFold(host, "localhost") {
		host = ""
	}
	if goos == "windows" {
		if hasDrive(host) && len(host) == 2 {
			// file://C:/x, one slash short, is written often enough.
			host, p = "", host+p
		}
		p = strings.ReplaceAll(p, "/", `\`)
		if len(p) > 2 && p[0] == '\\' && hasDrive(p[1:]) {
			p = p[1:]
		}
		if host != "" {
			p = `\\` + percentDecode(host) + p
		}
	} else if host != "" {
		return FileRef{}, fmt.Errorf("reading %s: the file is on another host", shownText(uri))
	}
	if !IsAbs(goos, p) {
		return FileRef{}, fmt.Errorf("reading %s: the path is not absolute", shownText(uri))
	}
	if err := checkPathText(p); err != nil {
		return FileRef{}, err
	}
	ref := FileRef{Path: p}
	ref.From, ref.To = parseLines(fragment)
	return ref, nil
}

// FileURI writes an absolute path as a `file:` URI.
func FileURI(goos, p string) string {
	host := ""
	if goos == "windows" {
		p = strings.ReplaceAll(p, `\`, "/")
		if rest, ok := strings.CutPrefix(p, "//?/"); ok {
			if unc, ok := cutPrefixFold(rest, "unc/"); ok {
				rest = "//" + unc
			}
			p = rest
		}
		if rest, ok := strings.CutPrefix(p, "//"); ok {
			slash := strings.IndexByte(rest, '/')
			if slash < 0 {
				slash = len(rest)
			}
			host, p = rest[:slash], rest[slash:]
		} else {
			p = "/" + p
		}
	}
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.WriteString("file://")
	b.WriteString(host)
	for i := 0; i < len(p); i++ {
		c := p[i]
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', strings.IndexByte("/:-._~!$&'()*+,;=@", c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		}
	}
	return b.String()
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

// SplitCommand splits a command line into words. Double and single quotes hold
// a word together; a backslash is a backslash, as paths on Windows have them.
// An empty line and an open quote are errors.
func SplitCommand(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	var quote byte
	inWord := false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if inWord {
				words = append(words, word.String())
				word.Reset()
				inWord = false
			}
		default:
			word.WriteByte(c)
			inWord = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("splitting the command: a %c is not closed", quote)
	}
	if inWord {
		words = append(words, word.String())
	}
	if len(words) == 0 {
		return nil, errors.New("splitting the command: it is empty")
	}
	return words, nil
}

// parseLines reads L3, L1-L3, L1-3, L4:25 (line and column), L1:5-L3:2.
func parseLines(fragment string) (from, to int) {
	first, second, isRange := strings.Cut(fragment, "-")
	if from = lineNumber(first, true); from == 0 {
		return 0, 0
	}
	to = from
	if isRange {
		if to = lineNumber(second, false); to < from {
			to = from
		}
	}
	return from, to
}

func lineNumber(s string, needL bool) int {
	digits, hasL := strings.CutPrefix(s, "L")
	if needL && !hasL {
		return 0
	}
	end := 0
	for end < len(digits) && '0' <= digits[end] && digits[end] <= '9' {
		end++
	}
	if end == 0 || end < len(digits) && digits[end] != ':' && digits[end] != 'C' {
		return 0
	}
	n, err := strconv.Atoi(digits[:end])
	if err != nil {
		return 0
	}
	return n
}

// percentDecode decodes %XX and leaves a % alone that begins none: editors
// write "100%.txt".
func percentDecode(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func checkPathText(p string) error {
	if !utf8.ValidString(p) || strings.ContainsRune(p, utf8.RuneError) || strings.IndexByte(p, 0) >= 0 {
		return errors.New("the path contains something that is not valid Unicode")
	}
	return nil
}

func hasDrive(p string) bool {
	return len(p) >= 2 && p[1] == ':' && ('a' <= p[0] && p[0] <= 'z' || 'A' <= p[0] && p[0] <= 'Z')
}

func isSlash(c byte) bool { return c == '/' || c == '\\' }
