package web

import (
	"fmt"
	"net/url"
	"strings"

	"codeberg.org/readeck/go-readability/v2" // Mozilla's Readability, line by line: the maintained one of its ports
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// read makes text of an answer.
func (p *Page) read(data []byte, contentType string, at *url.URL) error {
	text, err := decoded(data, contentType, p.Type)
	if err != nil {
		return err
	}
	if strings.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
		return errBinary
	}
	if !isHTML(p.Type) {
		p.Text = text
		return nil
	}
	doc, err := html.Parse(strings.NewReader(text)) // bounds how deep elements are nested
	if err != nil {
		return fmt.Errorf("reading its HTML: %w", err)
	}
	p.Title = titleOf(doc)
	whole := render(doc, at)
	// What is readable of a page is its article. A page that is none, as a list
	// or a form, is taken whole.
	if a, err := readability.FromDocument(doc, at); err == nil && a.Node != nil {
		if t := strings.TrimSpace(a.Title()); t != "" {
			p.Title = t
		}
		if article := render(a.Node, at); len(article) >= 200 || len(article) > len(whole)/2 {
			p.Text = article
			return nil
		}
	}
	p.Text = whole
	return nil
}

type textError string

func (e textError) Error() string { return string(e) }

const errBinary = textError("it is no text, though it says so")

func titleOf(n *html.Node) string {
	for d := range n.Descendants() {
		if d.DataAtom == atom.Title && d.FirstChild != nil {
			return strings.Join(strings.Fields(d.FirstChild.Data), " ")
		}
	}
	return ""
}

// render writes a page's elements as text in the manner of Markdown.
func render(n *html.Node, at *url.URL) string {
	w := writer{at: at}
	w.node(n)
	return strings.TrimSpace(w.b.String())
}

type writer struct {
	at    *url.URL
	b     strings.Builder
	pre   bool
	list  int
	space bool // a space stands before the next word
	lines int  // newlines at the end so far
	start bool // a mark was written, as that of a list: what follows belongs to its line
}

// text writes running text, whose white space counts as one space.
func (w *writer) text(s string) {
	if w.pre {
		w.raw(s)
		return
	}
	for _, r := range s {
		switch r {
		case ' ', '\n', '\t', '\r', '\f', '\u00a0':
			w.space = true
			continue
		}
		if w.space && w.lines == 0 && !w.start && w.b.Len() > 0 {
			w.b.WriteByte(' ')
		}
		w.space, w.start, w.lines = false, false, 0
		w.b.WriteRune(r)
	}
}

func (w *writer) raw(s string) {
	if s == "" {
		return
	}
	w.b.WriteString(s)
	w.space, w.start = false, false
	w.lines = len(s) - len(strings.TrimRight(s, "\n"))
}

// mark writes what begins a line, or a cell in it.
func (w *writer) mark(s string) {
	w.raw(s)
	w.start = true
}

// newline ends the line, so that n newlines stand there.
func (w *writer) newline(n int) {
	w.space = false
	if w.b.Len() == 0 || w.start {
		return
	}
	for ; w.lines < n; w.lines++ {
		w.b.WriteByte('\n')
	}
}

func (w *writer) children(n *html.Node) {
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		w.node(c)
	}
}

func (w *writer) node(n *html.Node) {
	switch n.Type {
	case html.TextNode:
		w.text(n.Data)
		return
	case html.ElementNode:
	default:
		w.children(n)
		return
	}
	if hidden(n) {
		return
	}
	switch n.DataAtom {
	case atom.Head, atom.Script, atom.Style, atom.Noscript, atom.Template, atom.Svg, atom.Iframe, atom.Object, atom.Select, atom.Button, atom.Canvas:
	case atom.Br:
		w.newline(w.lines + 1)
	case atom.Hr:
		w.newline(2)
		w.raw("---\n\n")
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.newline(2)
		w.mark(strings.Repeat("#", int(n.Data[1]-'0')) + " ")
		w.children(n)
		w.start = false
		w.newline(2)
	case atom.Pre:
		w.newline(2)
		w.raw("```\n")
		was := w.pre
		w.pre = true
		w.children(n)
		w.pre = was
		w.newline(1)
		w.raw("```\n\n")
	case atom.Li:
		w.newline(1)
		w.mark(strings.Repeat("  ", max(0, w.list-1)) + "- ")
		w.children(n)
		w.start = false
		w.newline(1)
	case atom.Ul, atom.Ol:
		if w.list == 0 {
			w.newline(2)
		}
		w.list++
		w.children(n)
		w.list--
		if w.list == 0 {
			w.newline(2)
		}
	case atom.Tr:
		w.newline(1)
		w.children(n)
		w.newline(1)
	case atom.Td, atom.Th:
		if w.lines == 0 && w.b.Len() > 0 {
			w.mark(" | ")
		}
		w.children(n)
		w.start = false
	case atom.A:
		before := w.b.Len()
		w.children(n)
		if link := w.link(n); link != "" && w.b.Len() > before && !w.pre {
			w.raw(" (" + link + ")")
		}
	case atom.Img:
		if alt := attr(n, "alt"); alt != "" {
			w.text(" [picture: " + alt + "] ")
		}
	case atom.Code, atom.Kbd, atom.Samp:
		if w.pre || n.FirstChild == nil {
			w.children(n)
			return
		}
		w.text("`")
		w.children(n)
		w.text("`")
	case atom.P, atom.Blockquote, atom.Table, atom.Dl, atom.Figure, atom.Article, atom.Section, atom.Main, atom.Header, atom.Footer, atom.Nav, atom.Aside, atom.Form, atom.Fieldset:
		w.newline(2)
		w.children(n)
		w.newline(2)
	case atom.Div, atom.Dt, atom.Dd, atom.Figcaption, atom.Option, atom.Address, atom.Details, atom.Summary:
		w.newline(1)
		w.children(n)
		w.newline(1)
	default:
		w.children(n)
	}
}

// hidden tells whether a browser would not show the element. What people do not
// see is not given to a model: it is a place to hide words for it.
func hidden(n *html.Node) bool {
	style := strings.ReplaceAll(strings.ToLower(attr(n, "style")), " ", "")
	_, has := lookup(n, "hidden")
	return has || attr(n, "aria-hidden") == "true" || strings.Contains(style, "display:none") || strings.Contains(style, "visibility:hidden")
}

func lookup(n *html.Node, name string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val, true
		}
	}
	return "", false
}

func attr(n *html.Node, name string) string {
	v, _ := lookup(n, name)
	return v
}

// link is where an element leads to, "" for nowhere else.
func (w *writer) link(n *html.Node) string {
	href := strings.TrimSpace(attr(n, "href"))
	if href == "" || strings.HasPrefix(href, "#") {
		return ""
	}
	u, err := url.Parse(href)
	if err != nil {
		return ""
	}
	if w.at != nil {
		u = w.at.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" || len(u.String()) > 500 {
		return ""
	}
	return u.String()
}
