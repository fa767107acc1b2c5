package regionfile_test

import (
	"errors"
	"fmt"

	"github.com/polyscan/polyscan/clients/regionfile"
)

func ExampleParse() {
	f, err := regionfile.Parse("board.svg", []byte(`
		<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 480">
		  <rect id="U7" x="100" y="80" width="40" height="20"/>
		</svg>`), regionfile.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f.Format, f.ImageWidth, f.ImageHeight)
	for _, r := range f.Regions {
		fmt.Println(r.Name, r.Fill, r.Rings)
	}
	// Output:
	// SVG 640 480
	// U7 nonzero [[[100 80] [140 80] [140 100] [100 100]]]
}

func ExampleParse_error() {
	_, err := regionfile.Parse("parts.json", []byte(`[{"name": "U7", "rings": [[[0, 0], [9, 9]]]}]`),
		regionfile.Options{})
	fmt.Println(err)
	fmt.Println(errors.Is(err, regionfile.ErrInvalid))
	// Output:
	// parts.json: regions[0] "U7": rings[0]: 2 vertices, a ring needs at least 3
	// true
}
