package command

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/polyscan/polyscan/internal/spelling"
)

// EnvPrefix begins the variables of the environment that are settings.
const (
	EnvPrefix  = "POLYSCAN_"
	prefixWord = "polyscan"
)

// Environment says which variables somebody set in vain: those that are almost a setting of the command, by letters, by
// the case of these, by the prefix, by words at the end of one that the other lacks, or by another word that its tag aka
// has for it, and say which that is; and those that are empty where no flag is given instead. Other variables are a
// matter of other programs.
func Environment(k *kong.Context, environ []string) (texts []string) {
	of := map[string]string{} // by words that stand for it
	flags := map[string]*kong.Flag{}
	for _, f := range k.Flags() {
		for _, name := range f.Envs {
			flags[name] = f
			of[strings.ToLower(strings.TrimPrefix(name, EnvPrefix))] = name
			for word := range strings.FieldsFuncSeq(f.Tag.Get("aka"), func(r rune) bool { return r == ',' }) {
				of[word] = name
			}
		}
	}
	words := slices.Sorted(maps.Keys(of))
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if runtime.GOOS == "windows" { // where letters of either case are the same
			name = strings.ToUpper(name)
		}
		if f := flags[name]; f != nil {
			given := slices.ContainsFunc(k.Path, func(p *kong.Path) bool { return p.Flag == f && !p.Resolved })
			if !given && (value == "" || Empty(k, f)) {
				texts = append(texts, fmt.Sprintf("environment %s: the value is empty, as if there were no --%s", name, f.Name))
			}
			continue
		}
		near := ""
		if word, ours := strings.CutPrefix(name, EnvPrefix); ours {
			if near = of[spelling.Nearest(word, words)]; near == "" {
				near = of[begins(strings.ToLower(word), words)]
			}
		} else if head, word, _ := strings.Cut(name, "_"); spelling.Nearest(head, []string{prefixWord}) != "" {
			near = of[strings.ToLower(word)]
		}
		if near != "" {
			texts = append(texts, fmt.Sprintf("environment %s: there is no such setting; did you mean %s?", name, near))
		}
	}
	return texts
}

// begins is the first of known words that begins as a word does, up to a whole part of either: token_file for tokens,
// and history for history_dir. The names of ports and hosts that Kubernetes sets for a service are no words.
func begins(word string, known []string) string {
	if strings.Contains(word, "_port") || strings.Contains(word, "_service_") {
		return ""
	}
	for _, k := range known {
		if strings.HasPrefix(k, word+"_") || strings.HasPrefix(k, strings.TrimSuffix(word, "s")+"_") ||
			strings.HasPrefix(word, k+"_") {
			return k
		}
	}
	return ""
}

// Strict says that the command was asked to take warnings for errors.
func Strict(k *kong.Context) bool {
	v, _ := find(k, "strict")
	return v != nil && on(k, v)
}
