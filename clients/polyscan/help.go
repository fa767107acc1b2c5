package main

// polyscan help.

type helpCmd struct {
	// The command to explain, such as reduce, or recipe put.
	Command []string `arg:"" optional:""`
}

func (c *helpCmd) Run(e *env) error {
	if code := run(e.ctx, append(c.Command, "--help"), e.stdin, e.stdout, e.stderr); code != exitOK {
		return errSaid
	}
	return nil
}
