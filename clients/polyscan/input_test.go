package main

// What a new user gets wrong, and the one line that says so.

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polyscan/polyscan/clients/regionfile"
)

// pngHeader is a PNG that claims a size and holds nothing of it.
func pngHeader(w, h uint32) string {
	chunk := func(kind string, data []byte) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
		b = append(append(b, kind...), data...)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b[4:]))
	}
	ihdr := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, w), h)
	ihdr = append(ihdr, 8, 0, 0, 0, 0)
	return "\x89PNG\r\n\x1a\n" + string(chunk("IHDR", ihdr)) +
		string(chunk("IDAT", []byte{0x78, 0x9c, 3, 0, 0, 0, 0, 1})) + string(chunk("IEND", nil))
}

func TestBadInput(t *testing.T) {
	board, err := os.ReadFile(frames + "board.png")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	t.Chdir(dir)
	for name, content := range map[string]string{
		"board.png": string(board),
		"good.png":  string(board),
		"cut.png":   string(board[:len(board)/2]),
		"empty.png": "",
		"text.txt":  "hello",
		"huge.png":  pngHeader(46341, 46341),
		"wide.png":  pngHeader(1<<31-1, 1),
		"f.raw":     strings.Repeat("\xf0", 640*480),
		"ok.json":   `[{"name":"a","rings":[[[1,1],[9,2],[5,9]]]}]`,
		"two.json":  `[{"name":"fine","rings":[[[1,1],[9,2],[5,9]]]},{"name":"U7","rings":[[[1,1],[2,2]]]}]`,
		"far.json":  `[{"name":"a","rings":[[[1,1],[9,2],[5,4194304]]]}]`,
		"lim.json":  `[{"name":"a","rings":[[[1,1],[9,2],[5,9]]],"limits":["mean in [5, 3]"]}]`,
		"none.json": `[]`,
		"red.json":  `{"name":"r","reductions":["meen"],"regions":[{"name":"a","rings":[[[1,1],[9,2],[5,9]]]}]}`,
	} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("nothing", 0o755); err != nil {
		t.Fatal(err)
	}
	closed := closedPort(t)
	root := filepath.ToSlash(dir)

	for _, tt := range []struct {
		args string
		code int
		want string // all that stderr says
	}{
		// Frames.
		{"reduce nope.png -r ok.json", 2, "nope.png: no such file or directory"},
		{"reduce empty.png -r ok.json", 2, "empty.png: the file is empty"},
		{"reduce . -r ok.json", 2, ".: it is a folder; for all frames of a folder, see polyscan stream"},
		{"reduce cut.png -r ok.json", 2,
			"cut.png: PNG file of ~: can't be decoded: png: invalid format: not enough pixel data"},
		{"reduce text.txt -r ok.json", 2,
			"text.txt: no PNG, JPEG, TIFF or BMP image; for raw pixels say --raw WIDTHxHEIGHT:FORMAT"},
		{"reduce huge.png -r ok.json", 2, "huge.png: ~46341 x 46341~ pixels~"},
		{"reduce wide.png -r ok.json", 2, "wide.png: ~2147483647 x 1~ pixels~"},
		{"reduce board.png -r ok.json --format gray8", 2,
			"board.png: --format gray8: the file holds 8-bit colour, rgb8"},
		{"reduce METAL16 -r ok.json --format gray8", 2,
			"METAL16: --format gray8: the file holds 16-bit gray, gray16le"},
		{"reduce METAL16 -r METAL16.json --bits 10", 2, `METAL16.json: regions[0] "sheet left": limits[1] = ` +
			`"max < 4095": can't fail: max is 0 to 1023 on GRAY16LE with 10 bits (and 1 more)`},
		{"reduce METAL16 -r ok.json --bits 10", 2,
			`METAL16: pixel (5, 7) in region 0 "a": 1568 is above 1023, the most that 10 bits hold`},
		{"reduce METAL16 -r ok.json --bits 11", 2, "--bits 11: must be 10, 12, 14 or 16"},
		{"reduce board.png -r ok.json --format rgb16", 2,
			`--format rgb16: want gray8, gray16le, rgb8, bgr8, rgba8, mono10p, mono12p, ` +
				`yuv422_uyvy, yuv422_yuyv, or bayer_rg8, bayer_rg16le, bayer_rg10p, bayer_rg12p and their like`},
		// Raw pixels.
		{"reduce f.raw -r ok.json", 2,
			"f.raw: no PNG, JPEG, TIFF or BMP image; for raw pixels say --raw WIDTHxHEIGHT:FORMAT"},
		{"reduce f.raw --raw 640x480:gray8:639 -r ok.json", 2,
			`--raw: "640x480:gray8:639": stride 639: less than a row of 640 bytes (640 pixels of 8 bits) (see polyscan reduce --help)`},
		{"reduce f.raw --raw 640x481:gray8 -r ok.json", 2, "f.raw: 307200 bytes, but --raw 640x481:gray8 takes 307840"},
		{"reduce board.png --raw 640x480:gray8 -r ok.json", 2,
			"board.png: ~ bytes, but --raw 640x480:gray8 takes 307200; it looks like a PNG file, which needs no --raw"},
		{"reduce f.raw --raw 640x480:gray9 -r ok.json", 2,
			`--raw: "640x480:gray9": format "gray9": want gray8, gray16le, rgb8, bgr8, rgba8, mono10p, mono12p, ` +
				`yuv422_uyvy, yuv422_yuyv, or bayer_rg8, bayer_rg16le, bayer_rg10p, bayer_rg12p and their like (see polyscan reduce --help)`},
		{"reduce f.raw --raw 640x480 -r ok.json", 2,
			`--raw: "640x480": want WIDTHxHEIGHT:FORMAT or WIDTHxHEIGHT:FORMAT:STRIDE, such as 640x480:gray8 (see polyscan reduce --help)`},
		{"reduce f.raw --raw 640:gray8 -r ok.json", 2,
			`--raw: "640:gray8": size "640": want WIDTHxHEIGHT, such as 640x480 (see polyscan reduce --help)`},
		{"reduce f.raw --raw 0x480:gray8 -r ok.json", 2,
			`--raw: "0x480:gray8": width "0": want a whole number from 1 to 2147483647 (see polyscan reduce --help)`},
		{"reduce f.raw --raw 640x480:gray8 --bits 12 -r ok.json", 2,
			"--bits 12: gray16le and bayer_rg16le may have so many, --raw says gray8"},
		{"reduce f.raw --raw 640x480:gray8 --demosaic malvar -r ok.json", 2,
			"--demosaic malvar: it is for frames in bayer_rg8 and its like"},
		{"reduce f.raw --raw 427x480:mono12p:640 -r ok.json", 2,
			`--raw: "427x480:mono12p:640": stride 640: less than a row of 641 bytes (427 pixels of 12 bits) (see polyscan reduce --help)`},
		{"reduce f.raw --raw 640x480:gray8 --format rgb8 -r ok.json", 2,
			"--format rgb8: it converts image files; raw pixels have the format that --raw says"},
		{"reduce f.raw --raw 320x480:gray16le --bits 12 -r ok.json", 2,
			`f.raw: pixel (1, 1) in region 0 "a": 61680 is above 4095, the most that 12 bits hold`},
		// Regions.
		{"reduce board.png -r nope.json", 2, "nope.json: no such file or directory"},
		{"reduce board.png -r .", 2, ".: is a directory, not a region file"},
		{"reduce board.png -r text.txt", 2,
			`text.txt: the file looks like text, starting with "hello"; accepted are ~`},
		{"reduce board.png -r empty.png", 2, "empty.png: the file is empty; accepted are ~"},
		{"reduce board.png -r two.json", 2, `two.json: regions[1] "U7": rings[0]: 2 vertices, a ring needs at least 3`},
		{"reduce board.png -r far.json", 2, `far.json: regions[0] "a": rings[0]~4194304~`},
		{"reduce board.png -r none.json", 2, `none.json: no regions in this polyscan regions file`},
		{"reduce board.png -r lim.json", 2,
			`lim.json: regions[0] "a": limits[0] = "mean in [5, 3]": column 9: the interval from 5 to 3 holds no number`},
		{"reduce board.png", 2, "--regions FILE, --shape 'NAME: SHAPE' or --recipe NAME is missing"},
		{"reduce - -r -", 2, "the frame and --regions are both -: standard input holds one of them"},
		{"reduce board.png -r ok.json --recipe x", 2, "--regions and --recipe: give one of them"},
		{"reduce board.png -r ok.json --tolerance 99", 2, "--tolerance 99: must be from 0.0009765625 to 16 px"},
		{"reduce board.png -r ok.json --tolerance 0", 2, "--tolerance 0: must be from 0.0009765625 to 16 px"},
		{"regions ok.json --tolerance 0", 2, "--tolerance 0: must be from 0.0009765625 to 16 px"},
		{"recipe put x --recipes r", 2, "--regions FILE or --shape 'NAME: SHAPE' is missing"},
		// Zeros that would be taken for no flag.
		{"reduce board.png -r ok.json --bits 0", 2,
			"--bits 0: must be more than 0; leave the flag out for the default (see ~ --help)"},
		{"reduce board.png -r ok.json --bins 0", 2,
			"--bins 0: must be more than 0; leave the flag out for the default (see ~ --help)"},
		{"reduce board.png -r ok.json --timeout 0s", 2,
			"--timeout 0s: must be more than 0; leave the flag out for the default (see ~ --help)"},
		{"lowpoly board.png -o o.png --spacing 0", 2,
			"--spacing 0: must be more than 0; leave the flag out for the default (see ~ --help)"},
		// Numbers.
		{"reduce board.png -r ok.json --stats mean,men", 2, `--stats "men": want count, ~, basic or all`},
		{"reduce board.png -r ok.json --percentiles 101", 2, "--percentiles 101: must be 0 to 100"},
		{"reduce board.png -r ok.json --percentiles NaN", 2,
			`--percentiles: "NaN" is no number in plain digits (see polyscan reduce --help)`},
		{"reduce board.png -r ok.json --percentiles 1_0", 2,
			`--percentiles: "1_0" is no number in plain digits (see polyscan reduce --help)`},
		{"reduce board.png -r ok.json --percentiles 101", 2, "--percentiles 101: must be 0 to 100"},
		{"reduce board.png -r ok.json --scale 1_0", 2,
			`--scale "1_0": want millimetres per pixel, such as 0.05 or 0.05,0.04@12,40`},
		{"reduce board.png -r ok.json --scale 0x1p3", 2,
			`--scale "0x1p3": want millimetres per pixel, such as 0.05 or 0.05,0.04@12,40`},
		{"reduce board.png -r ok.json --range 0,256", 2, "--range has no effect without --bins (see ~ --help)"},
		{"reduce board.png -r ok.json --bins 8 --range 9,3", 2, `--range: "9,3": LOWER must be less than UPPER`},
		{"reduce board.png -r ok.json --bins 8 --range 9", 2, `--range: "9": want LOWER,UPPER`},
		{"reduce board.png -r ok.json --stats mean --bins 8 --percentile-method linear", 2,
			"--percentile-method has no effect without percentiles or iqr"},
		{"reduce board.png -r ok.json --texture 1", 2, `--texture: "1": want DX,DY, such as 1,0`},
		{"reduce board.png -r ok.json --texture=1,0;0,1", 2, `--texture: "1,0;0,1": want DX,DY, such as 1,0`},
		{"reduce board.png -r ok.json --texture 0,0", 2,
			"--texture 0,0: a pair is of two pixels, and this is a pixel and itself; want DX,DY, such as 1,0"},
		{"reduce board.png -r ok.json --texture 9999,0", 2, "--texture ~9999: must be ~4096"},
		{"reduce board.png -r ok.json --color-matrix 1,2,3,4,5,6,7,8,NaN", 2,
			`--color-matrix: "NaN" is no number in plain digits`},
		{"teach board.png -r ok.json --quantity foo", 2, `--quantity "foo": column 1: expected a quantity ~`},
		{"reduce board.png --recipe a --recipes .", 2, "recipes: ~this is no name of a recipe's file; move it elsewhere"},
		{"reduce board.png -r ok.json --texture 1,0 --texture-levels 257", 2, "--texture-levels 257: must be 2 to 256"},
		{"reduce board.png -r ok.json --texture-counts", 2,
			"--texture-counts has no effect without --texture (see ~ --help)"},
		{"reduce board.png -r ok.json --correlate radial(33)", 2,
			`--correlate: "radial(33)": column 8: radial(33) has a distance that is not 0 to 32`},
		{"reduce board.png -r ok.json --correlate mean", 2, `--correlate: "mean": want autocorrelation(8,0), ~`},
		{"reduce board.png -r ok.json --golden gone.png", 2, "gone.png: no such file or directory"},
		{"reduce board.png -r ok.json --golden good.png --golden golden=good.png", 2,
			"--golden golden=good.png: each frame needs a name of its own"},
		{"reduce board.png -r ok.json --bins 65537", 2, "--bins 65537: ~65536"},
		// Output.
		{"reduce board.png -r ok.json --overlay gone/x.png", 2, "gone/x.png: no such file or directory"},
		{"reduce board.png -r ok.json --overlay x.gif", 2,
			"--overlay x.gif: want a file name that ends in .png or .jpg or .jpeg"},
		{"reduce board.png -r ok.json --plot x", 2, "--plot x: want a file name that ends in .png or .jpg or .jpeg"},
		{"reduce board.png -r ok.json --overlay x.png --plot ./x.png", 2,
			"--overlay x.png and --plot ./x.png are one file, which holds one of them"},
		{"lowpoly board.png -o x.svg --svg x.svg", 2,
			"--output x.svg: want a file name that ends in .png; --svg writes a drawing"},
		{"lowpoly board.png -o x.ply --mesh ./x.ply", 2,
			"--output x.ply: want a file name that ends in .png; --mesh writes a mesh"},
		{"lowpoly board.png --svg x.json --mesh x.json", 2,
			"--svg x.json: want a file name that ends in .svg"},
		{"mask board.png -r ok.json -o mask.jpg", 2, "--output mask.jpg: want a file name that ends in .png"},
		{"mask board.png -r ok.json -o .png", 2, "--output .png: want a file name that ends in .png"},
		{"mask board.png -r ok.json -o mask", 2, "--output mask: want a file name that ends in .png"},
		{"mask board.png -r ok.json -o mask.png --palette", 2,
			"--palette has no effect without --labels, --winding or --distance"},
		{"diffuse board.png -o x.tiff", 2, "--output x.tiff: want a file name that ends in .png"},
		{"fill board.png -o x.bmp", 2, "--output x.bmp: want a file name that ends in .png"},
		{"background board.png -r ok.json -o x.png --residual x.jpg", 2,
			"--residual x.jpg: want a file name that ends in .png"},
		{"extract board.png -o x.xml", 2, "--output x.xml: want a file name that ends in .json or .json.gz"},
		{"extract board.png -o x.json --preview x.gif", 2, "--preview x.gif: want a file name that ends in .png"},
		{"triangulate p.npy -o t.csv", 2, "--output t.csv: want a file name that ends in .npy"},
		{"recipe get r -o r.yaml --recipes r", 2, "--output r.yaml: want a file name that ends in .json"},
		{"stream . -r ok.json --csv -", 2, "--csv -: the rows take a file; standard output has the report"},
		{"lowpoly board.png -o - --svg -", 2, "--output and --svg are both -: standard output holds one of them"},
		{"reduce board.png -r ok.json --overlay o.png --overlay-size=-3", 2, "--overlay-size -3: must be 1 to 16384"},
		{"stream nothing -r ok.json", 2, "nothing: no frames (.png, .jpg, .jpeg, .tif, .tiff, .bmp) in this folder"},
		{"stream gone -r ok.json", 2, "gone: no such file or directory"},
		{"stream . -r ok.json --repeat 0", 2, "--repeat 0: must be 1 to 16777216"},
		{"stream . -r ok.json --window 0", 2, "--window 0: must be 1 to 1024"},
		{"stream . -r ok.json --csv gone/x.csv", 2, "gone/x.csv: no such file or directory"},
		{"mask -r ok.json -o x.png", 2, "the size is missing: give a FRAME or --size WxH"},
		{"mask board.png --size 3x3 -r ok.json -o x.png", 2, "--size and a frame: give one of them"},
		{"mask --size 10 -r ok.json -o x.png", 2, `--size: size "10": want WIDTHxHEIGHT, such as 640x480`},
		{"mask --size 100000x100000 -r ok.json -o x.png", 2,
			"--size 100000 x 100000: makes 10000000000 pixels: the limit is 536870912"},
		{"mask --size 10x10 -r ok.json -o gone/x.png", 2, "gone/x.png: no such file or directory"},
		{"mask cut.png -r ok.json", 2, "missing flags: --output=FILE (see polyscan mask --help)"},
		// Recipes.
		{"recipe list", 2, "recipes are on a server: say --addr ADDR, or --recipes DIR for a folder of this machine"},
		{"recipe put -r ok.json --recipes r", 2, "the name of the recipe is missing, and ok.json holds none"},
		{"recipe put -r red.json --recipes r", 2,
			`red.json: reductions[0]: "meen" is none of the statistics: did you mean "mean"?`},
		{"recipe put no/slash -r ok.json --recipes r", 2, `NAME "no/slash": must be 1 to 128 letters, digits, ~`},
		{"recipe put a -r lim.json --recipes r", 2,
			`lim.json: regions[0] "a": limits[0] = "mean in [5, 3]": column 9: the interval from 5 to 3 holds no number`},
		{"recipe get gone --recipes r", 2, `recipe "gone": not stored`},
		{"recipe get gone@0 --recipes r", 2, `recipe "gone@0": version "0" is no number from 1`},
		{"recipe delete gone --recipes r", 2,
			"recipe gone: which version? Say gone@VERSION, or --all for every one of them"},
		{"recipe delete gone@1 --all --recipes r", 2,
			"recipe gone@1: --all deletes every version; leave the version out"},
		{"reduce board.png --recipe gone", 2,
			"recipes are on a server: say --addr ADDR, or --recipes DIR for a folder of this machine"},
		{"reduce board.png --recipe gone --recipes r", 2, `recipe "gone": not stored`},
		// Flags that would have no effect.
		{"mask board.png -r ok.json -o x.png --limit a:mean<5", 2,
			"--limit has no effect on mask: it judges nothing (see ~ --help)"},
		{"fill board.png -r ok.json -o x.png --limit a:mean<5", 2,
			"--limit has no effect on fill: it judges nothing (see ~ --help)"},
		{"background board.png -r ok.json -o x.png --limit a:mean<5", 2,
			"--limit has no effect on background: it judges nothing (see ~ --help)"},
		{"fill board.png --mask board.png -o x.png --method naive", 2,
			"--method has no effect without --regions or --shape (see ~ --help)"},
		{"fill board.png -o x.png --scale 0.1", 2, "--scale has no effect without --regions or --shape (see ~ --help)"},
		{"blobs board.png --find >=128 --scale 0.1 --overlay-size 50", 2,
			"--overlay-size has no effect without --overlay (see ~ --help)"},
		{"blobs board.png --find >=128 --fill nonzero", 2, "--fill has no effect without --regions (see ~ --help)"},
		{"reduce board.png --shape a:circle(9,9,5) --image x", 2,
			"--image has no effect without --regions (see ~ --help)"},
		{"reduce board.png --recipe x --recipes r --strict", 2,
			"--strict has no effect without --regions or --shape (see ~ --help)"},
		{"reduce board.png -r ok.json --recipes r", 2, "--recipes has no effect without --recipe (see ~ --help)"},
		{"reduce board.png --recipe x --recipes r --addr h:1", 2,
			"--recipes has no effect with --addr (see ~ --help)"},
		{"try board.png -r ok.json --fail-on-error", 2,
			"--fail-on-error has no effect without --good or --bad (see ~ --help)"},
		{"history series a mean --addr x --subgroup 1", 2, "--subgroup 1: must be 2 to 25"},
		{"history series a mean --addr x --subgroup 26", 2, "--subgroup 26: must be 2 to 25"},
		{"history series a mean --addr x --lower 5 --upper 3", 2, "--upper 3: must be above --lower, which is 5"},
		{"try board.png -r ok.json --recipes r", 2,
			"--recipes has no effect without --recipe or --beside (see ~ --help)"},
		{"recipe list --recipes r --addr h:1", 2, "--recipes has no effect with --addr (see ~ --help)"},
		{"teach board.png -r ok.json --last 5", 2, "--last has no effect without --kept (see ~ --help)"},
		{"lowpoly board.png -o x.png --strength 5", 2, "--strength has no effect without --video (see ~ --help)"},
		{"lowpoly board.png -o x.png --hold 5", 2, "--hold has no effect without --video (see ~ --help)"},
		{"lowpoly board.png -o x.png --stage edges --color mean", 2,
			"--color has no effect without --stage shaded or --svg or --mesh (see ~ --help)"},
		{"reduce board.png -r ok.json --overlay-size 50", 2,
			"--overlay-size has no effect without --overlay (see ~ --help)"},
		{"reduce board.png -r ok.json --token-file t", 2, "--token-file has no effect without --addr (see ~ --help)"},
		{"reduce board.png -r ok.json --tls", 2, "--tls has no effect without --addr (see ~ --help)"},
		{"reduce board.png -r ok.json --cert c --addr h:1", 2, "--cert has no effect without --key (see ~ --help)"},
		{"reduce board.png -r ok.json --key c --addr h:1", 2, "--key has no effect without --cert (see ~ --help)"},
		{"reduce board.png -r ok.json --server-name c", 2, "--server-name has no effect without --addr (see ~ --help)"},
		{"reduce board.png -r ok.json --stats=", 2, "--stats: the value is empty (see ~ --help)"},
		{"reduce board.png -r ok.json --percentiles=", 2, "--percentiles: the value is empty (see ~ --help)"},
		{"reduce board.png -r ok.json --stats=mean,,max", 2, "--stats: the value is empty (see ~ --help)"},
		{"reduce board.png -r ok.json --texture-levels 5", 2,
			"--texture-levels has no effect without --texture (see ~ --help)"},
		{"reduce board.png -r ok.json --texture 1,0 --texture-counts", 2,
			"--texture-counts has no effect without --json (see ~ --help)"},
		{"diffuse board.png -o x.png --solver naive --threshold paper --accuracy 1", 2,
			"--accuracy has no effect with --threshold (see ~ --help)"},
		{"diffuse board.png -o x.png --batch", 2, "--batch has no effect without --addr (see ~ --help)"},
		{"extract board.png -o x.json --psnr 0 --max-pixels 3", 2,
			"--max-pixels has no effect with --psnr 0 (see ~ --help)"},
		{"bench --max-cycles 5", 2, "--max-cycles has no effect without --solver (see ~ --help)"},
		{"bench --threshold paper", 2, "--threshold has no effect without --solver (see ~ --help)"},
		{"bench --solver naive --vertices 40", 2, "--vertices has no effect with --solver (see ~ --help)"},
		{"watch --addr h:1 --numbers all", 2, "--numbers has no effect without --json (see ~ --help)"},
		{"device --device cuda --threads 2", 2, "--threads has no effect with --device cuda (see ~ --help)"},
		{"reduce board.png -r ok.json --threads 70000", 2, "--threads = 70000: must be 0 to 65536"},
		// The server and the device.
		{"reduce board.png -r ok.json --addr " + closed, 3, closed + ": no connection: dial tcp " + closed +
			": connect: connection refused; is the server running there?"},
		{"reduce board.png -r ok.json --addr a:b:c", 2, `--addr "a:b:c": no address: ~`},
		{"device --addr h:74650", 2, `--addr "h:74650": the port "74650": want a number from 1 to 65535`},
		{"device --addr h:7465/", 2, `--addr "h:7465/": the port "7465/": want a number from 1 to 65535`},
		{"device --addr http://h:7465", 2,
			`--addr "http://h:7465": no address: want host:port without http://, such as h:7465`},
		{"device --addr https://h:7465/", 2,
			`--addr "https://h:7465/": no address: want host:port without https://, with TLS, such as h:7465 (--tls)`},
		{"reduce board.png -r ok.json --addr h:1 --ca gone.pem", 2,
			"--addr h:1: CA certificates: open gone.pem: no such file or directory"},
		{"reduce board.png -r ok.json --addr h:1 --token-file ok.json", 2,
			"--addr h:1: a token would travel in plain text; use TLS (--tls)"},
		{"reduce board.png -r ok.json --addr h:1 --threads 3", 2,
			"--threads has no effect with --addr (see ~ --help)"},
		{"reduce board.png -r ok.json --ca x.pem", 2, "--ca has no effect without --addr (see ~ --help)"},
		{"reduce board.png -r ok.json --threads=-1", 2, "--threads -1: must not be negative"},
		{"reduce board.png -r ok.json --timeout 1ns", 3, "no answer within 1ns (--timeout)"},
		{"reduce board.png -r ok.json --device tpu", 2,
			`--device must be one of "auto","cpu","cuda" but got "tpu" (see polyscan reduce --help)`},
		{"serve --tls-cert gone.pem --listen 127.0.0.1:0", 2,
			"serve: --tls-cert has no effect without --tls-key (see ~ --help)"},
		{"serve --listen nowhere", 2,
			`serve: --listen: "nowhere" is not an address: want host:port or unix:/path (see polyscan serve --help)`},
		{"bench --size 1x1", 2, "--size 1x1: want from 16x16 to 134217728 pixels"},
		{"bench --vertices 3", 2, "--vertices 3: must be from 4 to 134217728"},
		{"bench --vertices 40 --method naive", 2,
			"--method has no effect with --vertices (see ~ --help)"},
		{"bench --vertices 40 --regions small", 2,
			"--regions has no effect with --vertices (see ~ --help)"},
		{"bench --vertices 40 --format gray16le", 2,
			"--format gray16le: low-poly pictures are of 8 bits a channel here"},
		{"bench --time 0s", 2, "--time 0s: must be from 1ms to 1m"},
		// The command line itself.
		{"frobnicate", 2, "unexpected argument frobnicate (see polyscan --help)"},
		{"reduce", 2, `FRAME or --frame NAME is missing`},
		{"reduce board.png -r ok.json -r ok.json", 2,
			"--regions is given twice, and holds one value (see polyscan reduce --help)"},
		{"reduce board.png -r ok.json --addr=", 2, "--addr: the value is empty (see polyscan reduce --help)"},
		{"reduce board.png -r ok.json --overlay", 2, "--overlay: its value is missing (see polyscan reduce --help)"},
		{"reduce board.png -r ok.json --colour", 2,
			"unknown flag --colour, did you mean \"--color\"? (see polyscan reduce --help)"},
		{"recipe", 2, `expected one of "put", "get", "list", "delete" (see polyscan recipe --help)`},
		{"completion tcsh", 2,
			`<shell> must be one of "bash","zsh","fish" but got "tcsh" (see polyscan completion --help)`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			expand := strings.NewReplacer("METAL16.json", absolute(t, root, "metal16.regions.json"), "METAL16",
				absolute(t, root, "metal16.png"))
			args := strings.Fields(expand.Replace(tt.args))
			stdout, stderr, code := polyscan(t, args...)
			want := "polyscan: " + expand.Replace(tt.want) + "\n"
			if code != tt.code || stdout != "" || !like(stderr, want) {
				t.Errorf("exit %d, want %d\nstdout %q\nstderr %q\nwant   %q", code, tt.code, stdout, stderr, want)
			}
			if strings.Count(stderr, "\n") != 1 {
				t.Errorf("%d lines, want one", strings.Count(stderr, "\n"))
			}
		})
	}
	if _, err := os.Stat("x.png"); err == nil {
		t.Error("a failed command left its output")
	}
}

// source is where the test was started.
var source, _ = os.Getwd()

// absolute is the path of a frame of the repository.
func absolute(t *testing.T, _, name string) string {
	t.Helper()
	return filepath.Join(source, frames, name)
}

// like compares a text with a pattern in which ~ stands for anything.
func like(s, pattern string) bool {
	parts := strings.Split(pattern, "~")
	if !strings.HasPrefix(s, parts[0]) {
		return false
	}
	s = s[len(parts[0]):]
	for i, p := range parts[1:] {
		if i == len(parts)-2 {
			return strings.HasSuffix(s, p)
		}
		j := strings.Index(s, p)
		if j < 0 {
			return false
		}
		s = s[j+len(p):]
	}
	return s == ""
}

func TestLike(t *testing.T) {
	for _, tt := range []struct {
		s, p string
		want bool
	}{{"abc", "abc", true}, {"abc", "ab", false}, {"abc", "a~", true}, {"abc", "a~c", true}, {"abc", "a~d", false},
		{"abcd", "a~c~", true}, {"abcd", "a~x~d", false}} {
		if got := like(tt.s, tt.p); got != tt.want {
			t.Errorf("like(%q, %q) = %v", tt.s, tt.p, got)
		}
	}
}

// TestInterrupted: the context ends while the command waits for standard input, and while a stream runs.
func TestInterrupted(t *testing.T) {
	for _, args := range [][]string{
		{"reduce", "-", "-r", frames + "board.regions.json"},
		{"stream", frames + "conveyor", "-r", frames + "conveyor/regions.json", "--repeat", "100000"},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		r, w := io.Pipe() // nothing ever comes
		_, stderr, code := polyscanIn(t, ctx, r, args...)
		w.Close()
		if code != exitCanceled || stderr != "polyscan: interrupted\n" {
			t.Errorf("%s: exit %d, %q", args[0], code, stderr)
		}
	}
}

// TestWriteFile: a file appears whole or not at all.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := writeFile(path, func(w io.Writer) error {
		if _, err := w.Write([]byte("half")); err != nil {
			return err
		}
		return io.ErrShortWrite
	})
	if err == nil || !strings.Contains(err.Error(), path+": short write") {
		t.Errorf("error %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "old" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if err := writeFile(path, func(w io.Writer) error { _, err := w.Write([]byte("new")); return err }); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "new" {
		t.Errorf("the file holds %q, %v", data, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("left behind: %v, %v", list, err)
	}
}

// TestEndlessInput: a source without end is refused at the limit, not read into memory.
func TestEndlessInput(t *testing.T) {
	if _, err := readAll(zeros{}, 0, 1<<20); err == nil || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("error %v", err)
	}
	if _, err := readAll(bytes.NewReader(nil), 1<<40, 1<<20); err == nil {
		t.Error("a claim above the limit: no error")
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestRegionsCommand: what polyscan regions prints of a file reads back, without a warning, as the file's regions.
func TestRegionsCommand(t *testing.T) {
	files, err := filepath.Glob("../regionfile/testdata/*.*")
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	files = append(files, frames+"board.regions.json", frames+"plank.regions.json")
	for _, name := range files {
		if filepath.Ext(name) == ".md" {
			continue
		}
		opts := regionfile.Options{}
		args := []string{"regions", name}
		if filepath.Base(name) == "coco.json" {
			opts.Image = "1"
			args = append(args, "--image", "1")
		}
		want, err := regionfile.Load(name, opts)
		if err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := polyscan(t, args...)
		if code != exitOK || strings.Count(stderr, "\n") != len(want.Warnings) {
			t.Fatalf("%s: exit %d, %q; want %d warnings", name, code, stderr, len(want.Warnings))
		}
		got, err := regionfile.Parse("printed", []byte(stdout), regionfile.Options{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got.Warnings) > 0 || got.Name != want.Name || got.Description != want.Description ||
			!slices.Equal(got.Reductions, want.Reductions) {
			t.Errorf("%s: %q, %q, %q, %q", name, got.Name, got.Description, got.Reductions, got.Warnings)
		}
		if !reflect.DeepEqual(got.Regions, want.Regions) {
			t.Errorf("%s: %v\nwant %v", name, got.Regions, want.Regions)
		}
	}
	wrong := write(t, "wrong.json", `[{"name":"a","rings":[[[1,1],[9,1],[9,9]]],"limits":["mean <"]}]`)
	for args, want := range map[string]int{
		"regions " + wrong:                                        exitUsage,
		"regions " + frames + "board.png":                         exitUsage,
		"regions " + frames + "nowhere.json":                      exitUsage,
		"regions ../regionfile/testdata/labelme.json --strict":    exitUsage,
		"regions ../regionfile/testdata/coco.json":                exitUsage,
		"regions " + frames + "board.regions.json -o regions.xml": exitUsage,
	} {
		if _, stderr, code := polyscan(t, strings.Fields(args)...); code != want || stderr == "" {
			t.Errorf("%s: exit %d, %q; want %d", args, code, stderr, want)
		}
	}
}
