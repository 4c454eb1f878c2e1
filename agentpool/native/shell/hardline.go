package shell

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// This file is the list of what is never run: what ruins a machine or a home,
// and what stops it. It says nothing else; what is merely dangerous is asked.

// hardline returns why a command is never run, "" if it may be.
func (x *reader) hardline(name string, args []string) string {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "--version") {
		return "" // beside anything else it may be a name, or not be known
	}
	operands := func() []string {
		var all []string
		ended := false
		for _, a := range args {
			switch {
			case a == "--" && !ended:
				ended = true
			case !ended && len(a) > 1 && a[0] == '-':
			default:
				all = append(all, a)
			}
		}
		return all
	}
	switch name {
	case "rm", "srm", "trash", "rimraf", "rmdir", "rd", "del", "erase", "unlink", "remove-item", "ri", "shred", "gio":
		if name == "rd" || name == "del" || name == "erase" || name == "rmdir" || name == "remove-item" || name == "ri" {
			return x.windowsRemoval(name, args)
		}
		if slices.ContainsFunc(args, func(a string) bool { return len(a) > 5 && strings.HasPrefix("--no-preserve-root", a) }) && name == "rm" {
			return "it removes the root folder"
		}
		if name == "shred" {
			break
		}
		sure, may := recursive(args)
		if name == "rimraf" {
			sure = true
		}
		for _, a := range operands() {
			if why := x.vital(a); why != "" {
				if sure {
					return "it removes " + why + " and all that is in it"
				}
				if may {
					x.unclear("it may remove " + why)
				}
			}
			if sure && (strings.HasPrefix(a, unknown) || x.vital(strings.ReplaceAll(a, unknown, "")) != "") && strings.Contains(a, unknown) {
				x.unclear("it removes a folder whose name is not known")
			}
		}
		if name == "rm" && !sure && may && slices.Contains(args, unknown) {
			x.unclear("it removes what is not known")
		}
	case "mv":
		ops := operands()
		for i, a := range ops {
			if why := x.vital(a); why != "" && (i < len(ops)-1 || len(ops) == 1) && !strings.HasPrefix(why, "/tmp") {
				return "it moves " + why + " away"
			}
		}
	case "chmod", "chown", "chgrp", "setfacl", "chattr":
		if sure, _ := recursive(args); sure {
			for _, a := range operands() {
				if why := x.vital(a); why != "" {
					return "it changes who may use all of " + why
				}
			}
		}
	case "rsync":
		if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--del") }) {
			if ops := operands(); len(ops) > 0 {
				if why := x.vital(ops[len(ops)-1]); why != "" {
					return "it removes what is in " + why
				}
			}
		}
	case "dd":
		for _, a := range args {
			if file, ok := strings.CutPrefix(a, "of="); ok {
				if why := x.device(file); why != "" {
					return why
				}
			}
		}
	case "cp", "install":
		if ops := operands(); len(ops) > 0 {
			if why := x.device(ops[len(ops)-1]); why != "" {
				return why
			}
		}
	case "tee", "wipefs", "blkdiscard", "truncate", "badblocks", "cryptsetup", "sfdisk", "sgdisk", "hdparm", "nvme", "pvcreate", "fallocate", "sponge":
		reads := name == "wipefs" && !slices.ContainsFunc(args, func(a string) bool {
			return strings.HasPrefix(a, "--a") || strings.HasPrefix(a, "--o") || strings.HasPrefix(a, "-") && strings.ContainsAny(a, "ao")
		}) ||
			name == "badblocks" && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && strings.Contains(a, "w") }) ||
			name == "cryptsetup" && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "luksFormat") || a == "erase" || a == "luksErase" }) ||
			name == "sgdisk" && slices.ContainsFunc(args, func(a string) bool { return a == "-p" || a == "--print" || a == "-i" }) ||
			name == "sfdisk" && slices.ContainsFunc(args, func(a string) bool { return a == "-l" || a == "--list" || a == "-d" || a == "--dump" || a == "-J" }) ||
			name == "hdparm" && !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--security-erase") || strings.HasPrefix(a, "--trim") }) ||
			name == "nvme" && !slices.Contains(args, "format") && !slices.Contains(args, "sanitize")
		if reads {
			break
		}
		for _, a := range args {
			if why := x.device(a); why != "" {
				return why
			}
		}
	case "fdisk", "parted", "gdisk", "cfdisk":
		if slices.ContainsFunc(args, func(a string) bool { return a == "-l" || a == "--list" || a == "print" || a == "-s" && name == "fdisk" }) {
			break
		}
		for _, a := range args {
			if isBlockDevice(a) {
				return "it changes the partitions of " + literal(a)
			}
		}
	case "diskutil":
		for _, a := range args {
			if l := strings.ToLower(a); strings.HasPrefix(l, "erase") || l == "partitiondisk" || l == "zerodisk" || l == "randomdisk" || l == "secureerase" || l == "reformat" {
				return "it formats a disk"
			}
		}
	case "zpool", "lvremove", "vgremove", "pvremove", "mdadm":
		if name != "zpool" && name != "mdadm" || slices.Contains(args, "destroy") || slices.Contains(args, "--zero-superblock") {
			return "it removes a disk's contents"
		}
	case "shutdown", "poweroff", "halt", "reboot", "stop-computer", "restart-computer":
		if name == "shutdown" && (slices.Contains(args, "-c") || slices.Contains(args, "/a")) {
			break
		}
		return "it stops the machine"
	case "systemctl", "loginctl":
		for _, a := range args {
			if slices.Contains([]string{"poweroff", "reboot", "halt", "kexec", "hibernate", "suspend", "soft-reboot", "hybrid-sleep", "suspend-then-hibernate", "emergency", "rescue"}, a) {
				return "it stops the machine"
			}
			if isolate := slices.Contains(args, "isolate") || slices.Contains(args, "start"); isolate && slices.Contains([]string{"poweroff.target", "reboot.target", "halt.target", "shutdown.target"}, a) {
				return "it stops the machine"
			}
		}
	case "init", "telinit":
		if ops := operands(); len(ops) > 0 && (ops[0] == "0" || ops[0] == "6") {
			return "it stops the machine"
		}
	case "dbus-send", "busctl", "gdbus", "qdbus":
		for _, a := range args {
			if i := strings.LastIndexAny(a, "."); slices.Contains([]string{"PowerOff", "Reboot", "Halt", "Suspend", "Hibernate"}, a[i+1:]) {
				return "it stops the machine"
			}
		}
	case "kill":
		rest := args
		if len(rest) > 1 && (rest[0] == "-s" || rest[0] == "-n" || rest[0] == "--signal") {
			rest = rest[2:]
		} else if len(rest) > 0 && strings.HasPrefix(rest[0], "-") && rest[0] != "--" && len(rest) > 1 {
			rest = rest[1:]
		}
		if slices.Contains(rest, "-1") && (len(rest) > 1 || len(args) > len(rest)) {
			return "it ends every process"
		}
	case "killall5":
		return "it ends every process"
	case "pkill", "killall":
		if ops := operands(); len(ops) > 0 {
			switch p := ops[len(ops)-1]; p {
			case ".", "", "^", "$", ".*", "." + star, star:
				return "it ends every process"
			}
		}
	case "format":
		if len(args) > 0 && len(args[0]) >= 2 && args[0][1] == ':' {
			return "it formats " + literal(args[0])
		}
	case "format-volume", "clear-disk", "initialize-disk":
		return "it formats a disk"
	case "newfs", "mkswap", "diskpart", "mke2fs", "newfs_apfs", "newfs_hfs", "newfs_msdos":
		return "it formats a disk"
	}
	if name == "shred" {
		for _, a := range operands() {
			if why := x.device(a); why != "" {
				return why
			}
		}
	}
	if name == "mkfs" || strings.HasPrefix(name, "mkfs.") {
		return "it formats a disk"
	}
	return ""
}

// windowsRemoval judges del, rd and Remove-Item.
func (x *reader) windowsRemoval(name string, args []string) string {
	deep := false
	for _, a := range args {
		l := strings.ToLower(a)
		deep = deep || l == "/s" || strings.HasPrefix(l, "-r") && name != "rmdir"
	}
	for _, a := range args {
		p := strings.ToLower(strings.TrimRight(strings.ReplaceAll(strings.Trim(literal(a), `"'`), "/", `\`), `\*.`))
		vital := len(p) == 2 && p[1] == ':' || slices.Contains([]string{`c:\windows`, `c:\users`, `c:\program files`, "%systemroot%", "%userprofile%", "$home", "$env:userprofile", "~", "%homepath%"}, p)
		if deep && (vital || x.vital(a) != "") {
			return "it removes " + literal(a) + " and all that is in it"
		}
	}
	return ""
}

// recursive tells whether rm goes into folders, and whether it may.
func recursive(args []string) (sure, may bool) {
	for _, a := range args {
		if a == "--" {
			break
		}
		long := len(a) > 2 && strings.HasPrefix("--recursive", a)
		if long || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") && strings.ContainsAny(a, "rR") {
			sure = true
		}
		if strings.HasPrefix(a, unknown) || strings.HasPrefix(a, "-") && strings.Contains(a, unknown) {
			may = true
		}
	}
	return sure, may || sure
}

// vitals are folders whose removal ruins a machine.
var vitals = []string{"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/libx32", "/media", "/mnt", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/usr", "/usr/bin", "/usr/lib", "/usr/local", "/usr/sbin", "/usr/share",
	"/var", "/var/lib", "/Applications", "/Library", "/System", "/Users", "/private", "/private/etc", "/private/var", "/Volumes", "/cores", "/nix", "/nix/store", "/snap"}

var aHome = regexp.MustCompile(`^(/home|/Users)/[^/]+$|^/root$`)

// vital returns the folder whose removal would ruin a machine or a home, "" if
// the word names none. Patterns are vital if they match one.
func (x *reader) vital(word string) string {
	if word == "" {
		return ""
	}
	// What is removed by DIR/* and DIR/.* is all of DIR.
	trimmed := word
	for {
		dir, last := path.Split(trimmed)
		only := last != "" && strings.Trim(last, star+quest+".") == "" && hasPattern(last)
		if last == "" && len(dir) > 1 {
			trimmed = strings.TrimRight(dir, "/")
			if trimmed == "" {
				trimmed = "/"
				break
			}
			continue
		}
		if !only || last == "." || last == ".." {
			break
		}
		if trimmed = dir; trimmed == "" {
			trimmed = "."
			break
		}
	}
	if strings.Contains(trimmed, unknown) {
		return ""
	}
	plain := literal(trimmed)
	switch strings.TrimRight(plain, "/") {
	case "~", "$HOME", "${HOME}":
		return plain
	}
	if len(plain) >= 2 && len(plain) <= 3 && plain[1] == ':' && strings.Trim(plain[2:], `/\`) == "" {
		return plain
	}
	for _, p := range x.at(trimmed) {
		tries := []string{p}
		if x.w.Real != nil && path.IsAbs(p) && (trimmed != word || strings.HasSuffix(word, "/") || strings.HasSuffix(word, "/.")) {
			tries = append(tries, x.w.Real(p))
		}
		for _, p := range tries {
			if p == "" {
				continue
			}
			if !hasPattern(trimmed) {
				if slices.ContainsFunc(vitals, func(v string) bool { return strings.EqualFold(v, p) }) || x.w.Home != "" && p == path.Clean(x.w.Home) || aHome.MatchString(p) {
					return p
				}
				continue
			}
			candidates := vitals
			if x.w.Home != "" {
				candidates = append(slices.Clip(candidates), path.Clean(x.w.Home))
			}
			for _, v := range candidates {
				if ok, err := path.Match(p, v); ok && err == nil {
					return v
				}
			}
		}
	}
	return ""
}

var blockDevice = regexp.MustCompile(`^/dev/(sd[a-z]|hd[a-z]|vd[a-z]|xvd[a-z]|nvme[0-9]|mmcblk[0-9]|r?disk[0-9]|dm-[0-9]|md[0-9]|loop[0-9]|mapper/.|disk/by-|zd[0-9]|nbd[0-9]|sr[0-9]|ram[0-9]|pmem[0-9]|mtd)`)

// devices stand for all of their kind, for patterns.
var devices = []string{"/dev/sda", "/dev/sda1", "/dev/sdb", "/dev/hda", "/dev/vda", "/dev/vda1", "/dev/xvda", "/dev/nvme0n1", "/dev/nvme0n1p1", "/dev/mmcblk0", "/dev/disk0", "/dev/rdisk0", "/dev/dm-0", "/dev/md0"}

func isBlockDevice(file string) bool {
	p := path.Clean(literal(file))
	if blockDevice.MatchString(p) || strings.HasPrefix(strings.ToLower(p), `\\.\physicaldrive`) {
		return true
	}
	if !hasPattern(file) {
		return false
	}
	return slices.ContainsFunc(devices, func(d string) bool { ok, err := path.Match(p, d); return ok && err == nil })
}

// device returns why a file must not be written, also where it may only be one.
func (x *reader) device(file string) string {
	for _, p := range x.at(file) {
		if hasPattern(file) {
			p = file
		}
		if why := overwrites(p); why != "" {
			return why
		}
		if strings.HasPrefix(p, "/dev/"+unknown) {
			x.unclear("it writes to a device that is not known")
		}
	}
	return ""
}

// overwrites returns why a file is never written, "" if it may be.
func overwrites(file string) string {
	if isBlockDevice(file) {
		return "it overwrites the device " + literal(file)
	}
	switch path.Clean(literal(file)) {
	case "/proc/sysrq-trigger":
		return "it stops the machine"
	case "/dev/mem", "/dev/kmem", "/dev/port":
		return "it overwrites the memory of the machine"
	}
	return ""
}
