package configs

import (
	"strings"
	"testing"
)

func TestMetricsAreForThisMachineUnlessSaidOtherwise(t *testing.T) {
	for text, want := range map[string]string{ // network and address, or what the error says
		`listen = ""`:                                        " ",
		`listen = "127.0.0.1:9464"`:                          "tcp 127.0.0.1:9464",
		`listen = "[::1]:9464"`:                              "tcp [::1]:9464",
		`listen = "unix:/run/x.sock"`:                        "unix /run/x.sock",
		`listen = "unix:x.sock"`:                             "relative path",
		`listen = "0.0.0.0:9464"`:                            "anywhere = true",
		`listen = ":9464"`:                                   "anywhere = true",
		`listen = "localhost:9464"`:                          "write 127.0.0.1:9464", // a name means what somebody else says
		`listen = "192.168.0.2:9464"`:                        "anywhere = true",
		"listen = \"0.0.0.0:9464\"\nanywhere = true":         "tcp 0.0.0.0:9464",
		"listen = \"metrics.example:9464\"\nanywhere = true": "tcp metrics.example:9464",
		`listen = "9464"`:                                    "is not an address",
		`listen = "127.0.0.1:"`:                              "is not an address",
		`listen = "http://127.0.0.1:9464"`:                   "is not an address",
	} {
		c, err := Parse("c.toml", []byte("[metrics]\n"+text))
		if err != nil {
			if !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "c.toml:2: metrics.listen: ") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		network, address, err := c.Metrics.Address()
		if got := network + " " + address; got != want || err != nil {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
