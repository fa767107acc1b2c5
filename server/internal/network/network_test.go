package network

import "testing"

func TestOf(t *testing.T) {
	for in, want := range map[string]string{
		"10.1.2.3:80": "10.1.2.3", "[::ffff:10.1.2.3]:80": "10.1.2.3", "[2001:db8:1:2:3::4%eth0]:5": "2001:db8:1:2::/64",
		"@": "@", "": "", "host:5": "host", "pipe": "pipe",
	} {
		if got := Of(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestCrowd(t *testing.T) {
	c := Crowd{}
	a := c.Join("a")
	c.Join("b")
	if again := c.Join("a"); again != a || *a != 2 {
		t.Errorf("two of a network count as %d", *again)
	}
	c.Leave("a")
	if *a != 1 {
		t.Errorf("one that is left counts as %d", *a)
	}
	c.Leave("a")
	c.Leave("b")
	if len(c) != 0 {
		t.Errorf("%v is left", c)
	}
}
