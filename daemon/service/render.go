package service

import (
	_ "embed"
	"encoding/xml"
	"strings"
	"text/template"
)

//go:embed systemd.service.tmpl
var serviceUnit string

//go:embed systemd.socket.tmpl
var socketUnit string

//go:embed launchd.plist.tmpl
var launchdPlist string

// render fills a template of ours in and seals it.
func render(text string, data any) string {
	t := template.Must(template.New("").Funcs(template.FuncMap{"xml": escapeXML}).Parse(text))
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		panic(err) // our templates with our data
	}
	return sealed(b.String())
}

func escapeXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a builder takes everything
	return b.String()
}

// unitValue writes a text where systemd takes the rest of the line: only "%" is
// special (systemd.unit(5), specifiers).
func unitValue(s string) string { return strings.ReplaceAll(s, "%", "%%") }

// unitQuoted writes a text as one quoted word (systemd.syntax(7)).
func unitQuoted(s string) string {
	return `"` + unitValue(strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`).Replace(s)) + `"`
}

// unitCommand writes a command line (systemd.service(5), command lines): in
// arguments "$" is special as well; the program's path is not looked at for
// that.
func unitCommand(program string, args ...string) string {
	line := unitQuoted(program)
	for _, a := range args {
		line += " " + unitQuoted(strings.ReplaceAll(a, "$", "$$"))
	}
	return line
}
