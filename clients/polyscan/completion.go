package main

// polyscan completion.

import (
	"github.com/alecthomas/kong"
	kongcompletion "github.com/jotaen/kong-completion"
)

type completionCmd struct {
	// bash, zsh or fish.
	Shell string `arg:"" enum:"bash,zsh,fish"`
}

func (c *completionCmd) Help() string {
	return `
Prints the code that makes a shell complete polyscan's commands, flags and files. The code calls this very executable,
so install polyscan first; go run builds one that is gone a moment later.

Examples:

    source <(polyscan completion bash)      # in ~/.bashrc
    source <(polyscan completion zsh)       # in ~/.zshrc
    polyscan completion fish | source       # in ~/.config/fish/config.fish
`
}

func (c *completionCmd) Run(k *kong.Context) error {
	return (&kongcompletion.Completion{Shell: c.Shell, Code: true}).Run(k)
}
