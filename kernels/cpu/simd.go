package cpu

func capability() string { return "go" }
