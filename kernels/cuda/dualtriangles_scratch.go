//lint:file-ignore U1000 launched under the tag cuda

package cuda

// dualTiles is how many tiles of blocks of 2x2 pixels there are.
func dualTiles(width, height int) int { return ceilDiv((width-1)*(height-1), dualThreads*dualItems) }

// dualScratch is the tiles and, from list on, a list in which any block may be.
func dualScratch(width, height int) (list, bytes int64) {
	tiles := int64(dualTiles(width, height))
	list = alignUp(dualTileBytes * tiles)
	return list, list + 4*dualThreads*dualItems*tiles
}
