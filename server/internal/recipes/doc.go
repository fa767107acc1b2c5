// Package recipes keeps named and versioned recipes, in memory and in a directory, and answers the calls of
// RecipeService. It never touches the device.
package recipes
