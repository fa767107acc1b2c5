//go:build purego || !amd64

package cpu

const bestLevel = levelGo
