//go:build !drill

package schemes

// programTags are those that the programs are built with: these are as they are shipped.
const programTags = ""
