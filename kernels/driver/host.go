// Host memory that a device knows.

package driver

// HostRegistrar is a [Device] that copies faster from host memory that it was told of, such as a GPU from pages that it
// has locked. Others leave it out.
type HostRegistrar interface {
	// RegisterHost makes uploads from b fast until unregister is called, which is to happen before b is unmapped and
	// when no upload from it is under way. The memory may be mapped for reading only, by other processes for writing,
	// and its pages may be exchanged under it: uploads then copy what was there before. An error changes nothing.
	RegisterHost(b []byte) (unregister func() error, err error)
}
