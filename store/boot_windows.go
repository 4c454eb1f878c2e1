package store

import (
	"fmt"

	"golang.org/x/sys/windows/registry"
)

// bootID names the running kernel's life; "" if it cannot be known. Windows
// counts its boots in the registry.
func bootID() string {
	const path = `SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management\PrefetchParameters`
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, path, registry.QUERY_VALUE)
	if err != nil {
		return ""
	}
	defer key.Close()
	n, _, err := key.GetIntegerValue("BootId")
	if err != nil {
		return ""
	}
	return fmt.Sprintf("boot-%d", n)
}
