// Package inspect reduces frames to statistics and verdicts, and rasterises regions: InspectionService. It keeps
// regions that come again prepared on the device.
package inspect
